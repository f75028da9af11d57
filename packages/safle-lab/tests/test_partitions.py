"""Partitions: every sample exactly once, the same seed the same parts, at any extreme."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle.errors import InvalidInput, SettingsError
from safle_lab.partitions import class_mix, partition

labels_of_any_size = st.lists(st.integers(-3, 6), max_size=60).map(
    lambda values: np.array(values, dtype=np.int64)
)
clients_of_any_number = st.integers(1, 90)
seeds = st.integers(0, 2**32)
alphas = st.sampled_from([5e-324, 1e-12, 0.01, 0.1, 1.0, 1e6, 1.7e308])
scenarios = st.one_of(
    alphas.map("alpha={}".format), st.integers(1, 5).map("shards={}".format), st.just("iid")
)


def parts_of(labels, scenario, clients, seed):
    return partition(labels, scenario, clients=clients, generator=np.random.default_rng(seed))


def mix_of(labels, scenario, clients, seed=0):
    return class_mix(labels, parts_of(labels, scenario, clients, seed))


@given(scenarios, labels_of_any_size, clients_of_any_number, seeds)
def test_every_sample_is_held_exactly_once_and_the_seed_decides(scenario, labels, clients, seed):
    parts = parts_of(labels, scenario, clients, seed)
    assert len(parts) == clients
    assert all(part.dtype == np.int64 for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    again = parts_of(labels, scenario, clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("scenario", ["alpha=0.1", "shards=2", "iid"])
def test_another_seed_gives_other_parts_and_strings_are_labels_too(scenario):
    labels = np.repeat(np.arange(10), 30)
    first, second = (parts_of(labels, scenario, 5, seed) for seed in (1, 2))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    names = np.array(list("abcdefghij"))[labels]
    by_name = parts_of(names, scenario, 5, 1)
    assert all(np.array_equal(a, b) for a, b in zip(first, by_name, strict=True))
    assert class_mix(names, by_name).tolist() == class_mix(labels, first).tolist()


@given(labels_of_any_size, clients_of_any_number, seeds, st.integers(1, 4))
def test_class_mix_counts_what_each_client_holds(labels, clients, seed, each):
    parts = parts_of(labels, f"shards={each}", clients, seed)
    mix, names = class_mix(labels, parts), np.unique(labels)
    assert mix.dtype == np.int64
    assert mix.shape == (clients, len(names))
    expected = [[np.sum(labels[part] == name) for name in names] for part in parts]
    assert mix.tolist() == np.reshape(expected, mix.shape).tolist()


def test_alpha_decides_how_unequal_clients_are():
    labels = np.repeat(np.arange(10), 200)
    assert ((mix_of(labels, "alpha=1e-300", 20) > 0).sum(axis=0) == 1).all()
    equal = mix_of(labels, "alpha=1e300", 8)
    assert (equal.min(), equal.max()) >= (24, 24)
    assert equal.max() <= 26
    seen = [(mix_of(labels, f"alpha={a}", 50, 7) > 0).sum(axis=1).mean() for a in (0.05, 0.5, 50)]
    assert seen == sorted(seen)
    assert len({*seen}) == 3


@given(seeds, alphas)
def test_a_full_client_gets_no_further_class(seed, alpha):
    labels, clients = np.repeat(np.arange(12), 25), 6
    mix = mix_of(labels, f"alpha={alpha}", clients, seed)
    held_before = np.cumsum(mix, axis=1) - mix
    assert (mix[held_before >= len(labels) / clients] == 0).all()


def test_shards_and_iid_parts_are_equal():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 100))
    mix = mix_of(labels, "shards=2", 50, 1)
    assert {*mix.sum(axis=1)} == {20}
    assert (mix > 0).sum(axis=1).max() <= 2
    assert sorted({len(part) for part in parts_of(labels[:103], "iid", 10, 0)}) == [10, 11]


@pytest.mark.parametrize("clients", [0, -1, 2.0, True, "3", None])
def test_the_number_of_clients_is_checked(clients):
    with pytest.raises(InvalidInput, match="clients"):
        parts_of([0] * 10, "iid", clients, 0)


@pytest.mark.parametrize(
    "scenario",
    [
        *("alpha=0.0", "alpha=-1", "alpha=inf", "alpha=nan", "alpha=", "alpha=x"),
        *("shards=0", "shards=1.5", "circles", ""),
    ],
)
def test_scenarios_are_checked(scenario):
    with pytest.raises(SettingsError, match="scenario"):
        parts_of([0, 1], scenario, 2, 0)


def test_labels_are_checked():
    with pytest.raises(InvalidInput, match="one label per sample"):
        parts_of([[0, 1]], "alpha=1", 2, 0)
