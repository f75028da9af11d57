"""Partitions: every sample exactly once, the same seed the same parts, at any extreme."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle.demo import class_mix, dirichlet, iid, shards
from safle.errors import InvalidInput

labels_of_any_size = st.lists(st.integers(-3, 6), max_size=60).map(
    lambda values: np.array(values, dtype=np.int64)
)
clients_of_any_number = st.integers(1, 90)
seeds = st.integers(0, 2**32)
alphas = st.sampled_from([5e-324, 1e-12, 0.01, 0.1, 1.0, 1e6, 1.7e308])
KINDS = ["dirichlet", "shards", "iid"]


def parts_of(kind, labels, *, clients, seed, alpha=0.1, shards_per_client=2):
    generator = np.random.default_rng(seed)
    if kind == "dirichlet":
        return dirichlet(labels, clients=clients, alpha=alpha, generator=generator)
    if kind == "shards":
        return shards(
            labels, clients=clients, shards_per_client=shards_per_client, generator=generator
        )
    return iid(len(labels), clients=clients, generator=generator)


@pytest.mark.parametrize("kind", KINDS)
@given(
    labels=labels_of_any_size,
    clients=clients_of_any_number,
    seed=seeds,
    alpha=alphas,
    shards_per_client=st.integers(1, 5),
)
def test_every_sample_is_held_exactly_once(kind, labels, clients, seed, alpha, shards_per_client):
    parts = parts_of(
        kind, labels, clients=clients, seed=seed, alpha=alpha, shards_per_client=shards_per_client
    )

    assert len(parts) == clients
    assert all(part.dtype == np.int64 for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))


@pytest.mark.parametrize("kind", KINDS)
@given(labels=labels_of_any_size, clients=clients_of_any_number, seed=seeds)
def test_the_seed_decides_everything(kind, labels, clients, seed):
    first = parts_of(kind, labels, clients=clients, seed=seed)
    second = parts_of(kind, labels, clients=clients, seed=seed)

    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_other_parts(kind):
    labels = np.repeat(np.arange(10), 30)

    first = parts_of(kind, labels, clients=5, seed=1)
    second = parts_of(kind, labels, clients=5, seed=2)

    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@given(
    labels=labels_of_any_size, clients=clients_of_any_number, seed=seeds, count=st.integers(1, 4)
)
def test_class_mix_counts_what_each_client_holds(labels, clients, seed, count):
    parts = parts_of("shards", labels, clients=clients, seed=seed, shards_per_client=count)

    mix = class_mix(labels, parts)

    names = np.unique(labels)
    assert mix.dtype == np.int64
    assert mix.shape == (clients, len(names))
    expected = [[np.sum(labels[part] == name) for name in names] for part in parts]
    assert mix.tolist() == np.reshape(expected, mix.shape).tolist()


def test_strings_are_labels_too():
    names = np.array(["cat", "dog", "bird"])[np.random.default_rng(0).integers(0, 3, 90)]
    numbers = np.unique(names, return_inverse=True)[1]

    for kind in KINDS:
        by_name = parts_of(kind, names, clients=4, seed=3)
        by_number = parts_of(kind, numbers, clients=4, seed=3)
        assert all(np.array_equal(a, b) for a, b in zip(by_name, by_number, strict=True))
        assert class_mix(names, by_name).tolist() == class_mix(numbers, by_number).tolist()


def test_a_tiny_alpha_gives_each_class_to_one_client():
    labels = np.repeat(np.arange(10), 50)

    mix = class_mix(
        labels,
        dirichlet(labels, clients=20, alpha=1e-300, generator=np.random.default_rng(0)),
    )

    assert ((mix > 0).sum(axis=0) == 1).all()


def test_a_huge_alpha_gives_equal_mixes():
    labels = np.repeat(np.arange(10), 200)

    mix = class_mix(
        labels, dirichlet(labels, clients=8, alpha=1e300, generator=np.random.default_rng(0))
    )

    assert mix.min() >= 24
    assert mix.max() <= 26


@given(seed=seeds, alpha=alphas)
def test_a_full_client_gets_no_further_class(seed, alpha):
    labels = np.repeat(np.arange(12), 25)
    clients = 6

    mix = class_mix(
        labels,
        dirichlet(labels, clients=clients, alpha=alpha, generator=np.random.default_rng(seed)),
    )

    held_before = np.cumsum(mix, axis=1) - mix
    assert (mix[held_before >= len(labels) / clients] == 0).all()


def test_smaller_alpha_means_fewer_classes_a_client():
    labels = np.repeat(np.arange(10), 500)

    def classes_seen(alpha):
        parts = dirichlet(labels, clients=50, alpha=alpha, generator=np.random.default_rng(7))
        return (class_mix(labels, parts) > 0).sum(axis=1).mean()

    assert classes_seen(0.05) < classes_seen(0.5) < classes_seen(50.0)


def test_shards_are_equal_and_hold_few_classes():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 100))

    parts = shards(labels, clients=50, shards_per_client=2, generator=np.random.default_rng(1))

    assert {len(part) for part in parts} == {20}
    assert (class_mix(labels, parts) > 0).sum(axis=1).max() <= 2


def test_iid_parts_are_equal_to_within_one_sample():
    parts = iid(103, clients=10, generator=np.random.default_rng(0))

    assert sorted({len(part) for part in parts}) == [10, 11]


@pytest.mark.parametrize("clients", [0, -1, 2.0, True, "3", None])
def test_the_number_of_clients_is_checked(clients):
    with pytest.raises(InvalidInput, match="clients"):
        iid(10, clients=clients, generator=np.random.default_rng(0))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_alpha_is_checked(alpha):
    with pytest.raises(InvalidInput, match="alpha"):
        dirichlet([0, 1], clients=2, alpha=alpha, generator=np.random.default_rng(0))


def test_other_arguments_are_checked():
    generator = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="shards_per_client"):
        shards([0, 1], clients=2, shards_per_client=0, generator=generator)
    with pytest.raises(InvalidInput, match="one label per sample"):
        dirichlet([[0, 1]], clients=2, alpha=1.0, generator=generator)
