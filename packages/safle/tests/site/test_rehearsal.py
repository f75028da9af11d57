"""A rehearsal: what would be sent, and how well the samples do alone."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Table, encode, make_encoder
from safle.encoders.calibration import declared_range
from safle.errors import InvalidInput
from safle.site.rehearsal import fitting_share, rehearse
from safle.statistics.exposure import find_exposure
from support.data_sets import KINDS, fixed_data

INK = declared_range(0, 16, feature_dim=64)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rehearsal_says_what_would_be_sent(kind):
    data = fixed_data(kind)
    statistics = data.count()
    found = rehearse(data.encoder, Table(data.features, data.labels), where="t.csv")
    assert found.bytes == len(encode(statistics))
    assert found.samples == 120
    assert found.numbers == statistics.dim * (statistics.dim + 1) // 2 + 3 * statistics.dim + 3
    assert found.seconds > 0
    assert found.exposure == find_exposure(statistics)


def test_samples_are_judged_by_the_held_out_ones(digits):
    features, labels = digits[0][:600], digits[1][:600]
    encoder = make_encoder(INK, units=256)
    found = rehearse(encoder, Table(features, labels), where="t.csv")
    assert found.judged == 120
    assert found.accuracy > 0.85
    assert 0.1 <= found.largest_class < 0.3
    assert found.error == pytest.approx(np.sqrt(found.accuracy * (1 - found.accuracy) / 120))
    shuffled = np.random.default_rng(0).permutation(labels)
    assert rehearse(encoder, Table(features, shuffled), where="t.csv").accuracy < 0.3


def test_too_few_samples_to_hold_any_out(digits):
    encoder, (features, labels) = make_encoder(INK, units=16), digits
    with pytest.raises(InvalidInput, match=r"t.csv: 4 samples; a fifth"):
        rehearse(encoder, Table(features[:4], labels[:4]), where="t.csv")
    with pytest.raises(InvalidInput, match=r"t.csv: has no samples"):
        rehearse(encoder, Table(features[:0], labels[:0]), where="t.csv")


@pytest.mark.parametrize("kind", KINDS)
def test_rehearsal_of_other_features_does_not_fit(kind):
    data = fixed_data(kind)
    assert fitting_share(data.encoder, data.features) > 0.9
    assert fitting_share(data.encoder, 1_000 + 0 * data.features) == 0
    if kind != "embedding":
        # Buckets cannot tell large from very large.
        assert fitting_share(data.encoder, 1_000 * data.features) < 0.75


def test_a_label_among_the_features_is_suspected():
    features = np.random.default_rng(0).random((600, 3))
    labels = np.arange(600) % 2
    encoder = make_encoder(declared_range(0, 1, feature_dim=3), units=16)
    assert not rehearse(encoder, Table(features, labels), where="t.csv").doubts
    features[:, 1] = labels
    (doubt,) = rehearse(encoder, Table(features, labels), where="t.csv").doubts
    assert "all 120 held-out samples were right: is the label" in doubt
    # Of few samples, all are right by chance.
    assert not rehearse(encoder, Table(features[:200], labels[:200]), where="t.csv").doubts
