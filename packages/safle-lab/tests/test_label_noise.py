"""Label noise: the declared rate, the declared kind, nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from safle.errors import InvalidInput
from safle_lab.label_noise import with_noise

LABELS = np.repeat(np.arange(5), 4_000)


def noisy(kind, rate, seed=0):
    return with_noise(
        LABELS, kind=kind, rate=rate, class_count=5, generator=np.random.default_rng(seed)
    )


@pytest.mark.parametrize("kind", ["symmetric", "pair-flip"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.6, 1.0])
def test_the_share_of_wrong_labels_is_the_rate(kind, rate):
    found = noisy(kind, rate)

    assert found.dtype == np.int64
    assert abs((found != LABELS).mean() - rate) < 0.015
    assert set(found) <= set(range(5))


def test_symmetric_noise_gives_every_other_class_alike():
    wrong = noisy("symmetric", 1.0)[LABELS == 2]

    shares = np.bincount(wrong, minlength=5) / len(wrong)
    assert shares[2] == 0
    assert np.allclose(np.delete(shares, 2), 0.25, atol=0.03)


def test_pair_flip_noise_gives_the_next_class():
    assert np.array_equal(noisy("pair-flip", 1.0), (LABELS + 1) % 5)


@pytest.mark.parametrize("kind", ["symmetric", "pair-flip"])
def test_the_seed_decides_everything(kind):
    assert np.array_equal(noisy(kind, 0.3, seed=4), noisy(kind, 0.3, seed=4))
    assert not np.array_equal(noisy(kind, 0.3, seed=4), noisy(kind, 0.3, seed=5))


def test_client_dependent_noise_is_each_clients_own():
    parts = np.array_split(np.random.default_rng(1).permutation(len(LABELS)), 40)
    asked = {"kind": "client-dependent", "rate": 0.4, "class_count": 5, "parts": parts}

    found = with_noise(LABELS, generator=np.random.default_rng(0), **asked)

    wrong = np.array([(found[part] != LABELS[part]).mean() for part in parts])
    noisy = wrong[wrong > 0]
    assert 0.2 < len(noisy) / 40 < 0.6
    assert noisy.min() > 0.45
    assert np.ptp(noisy) > 0.2
    with pytest.raises(InvalidInput, match="parts with every sample once"):
        with_noise(LABELS, generator=np.random.default_rng(0), **{**asked, "parts": parts[1:]})


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"kind": "loud"}, "symmetric, pair-flip"),
        ({"rate": 1.5}, r"rate of 1\.5"),
        ({"class_count": 1}, "single class"),
    ],
)
def test_nonsense_is_refused(wrong, complaint):
    asked = {"kind": "symmetric", "rate": 0.1, "class_count": 5, **wrong}
    with pytest.raises(InvalidInput, match=complaint):
        with_noise(LABELS, generator=np.random.default_rng(0), **asked)
