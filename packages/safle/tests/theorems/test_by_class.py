"""Statistics by class: each class's gram is that of its own samples, however they came together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import Accumulator, Encoder, Statistics, count, decode, encode, sum_statistics
from safle.encoders.codes import Block, Layout, tables_of
from safle.errors import InvariantError, NotEnoughMemory, SettingsError
from safle.server.limits import open_contribution
from safle.server.store import Store
from safle.statistics.exposure import find_exposure
from safle.statistics.gram import Triangle
from support.data_sets import BY_CLASS, fixed_data
from support.layouts import constant, dense

BATCHES = st.lists(st.integers(0, 60), min_size=1, max_size=5)


def grams_of(encoder: Encoder, features, labels):
    """The products of each class's codes, in Python's order of doing things."""
    width = encoder.layout.class_layout.dim
    dense = encoder.encode(features).dense[:, :width].astype(np.int64)
    return [dense[labels == name].T @ dense[labels == name] for name in np.unique(labels)]


def same_grams(statistics: Statistics, expected) -> bool:
    found = [part.gram_square() for part in statistics.by_class]
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


@pytest.mark.parametrize("kind", BY_CLASS)
@given(cuts=BATCHES, order=st.randoms(use_true_random=False))
@settings(max_examples=8)
def test_any_partition_in_any_order_has_the_grams_of_the_classes(kind, cuts, order):
    data = fixed_data(kind, samples=60)
    whole = data.count()
    assert same_grams(whole, grams_of(data.encoder, data.features, data.labels))
    places = np.split(np.arange(60), sorted(cuts))
    order.shuffle(places)
    parts = [data.part(place).count() for place in places if len(place)]
    total, streamed = sum_statistics(parts), Accumulator(data.encoder)
    for place in places:
        streamed.add_samples(data.features[place], data.labels[place])
    added = Accumulator(data.encoder)
    for part in parts:
        added.add(open_contribution("client", encode(part), added.space)[0])
    assert whole == total == streamed.snapshot() == added.snapshot()
    assert len({encode(x) for x in (whole, total, added.snapshot())}) == 1
    total.verify()
    assert sum_statistics(parts[1:] or [Statistics.empty(whole.space)]) == total - parts[0]


@pytest.mark.parametrize("kind", BY_CLASS)
@pytest.mark.parametrize(
    ("samples", "classes"), [(1, 1), (2, 1), (3, 3), (7, 2), (40, 1), (40, 25), (0, 1)]
)
def test_few_samples_one_class_and_more_features_than_samples(kind, samples, classes):
    encoder = fixed_data(kind, feature_dim=16).encoder
    features = np.random.default_rng(samples).normal(size=(samples, 16))
    features[:, 3] = 0.25
    features[:, 4] = features[:, 5]
    labels = np.arange(samples) % classes
    statistics = count(encoder, features, labels)
    assert same_grams(statistics, grams_of(encoder, features, labels) if samples else [])
    assert decode(encode(statistics), space=encoder.space) == statistics
    statistics.verify()
    assert [part.dim for part in statistics.by_class] == [17] * len(set(labels))


@pytest.mark.parametrize("kind", BY_CLASS)
def test_a_class_that_one_client_alone_has_leaves_with_it(kind, tmp_path):
    data = fixed_data(kind, samples=30)
    mine, others = data.labels == 2, data.labels != 2
    with Store.create(tmp_path / "store", data.encoder) as store:
        for client, chosen in (("a", mine), ("b", others)):
            store.add(client, encode(data.part(chosen).count()))
        assert store.total().snapshot() == data.count()
        store.remove("a")
        assert store.total().snapshot() == data.part(others).count()


@pytest.mark.parametrize("kind", BY_CLASS)
def test_another_class_s_gram_is_found(kind):
    true = fixed_data(kind, samples=40).count()
    first, second, *rest = true.by_class
    swapped = replace(first, gram=second.gram), replace(second, gram=first.gram)
    for parts in ((second, first), (second,), (first, first), swapped):
        with pytest.raises(InvariantError):
            replace(true, by_class=(*parts, *rest)).verify()
    odd = first.gram.packed.copy()
    odd[0] += 1
    wrong = replace(first, gram=Triangle(odd, first.dim))
    with pytest.raises(InvariantError, match="class 0"):
        replace(true, by_class=(wrong, second, *rest)).verify()


def test_memory_is_stated_before_it_is_taken(monkeypatch):
    data = fixed_data("linear by class")
    monkeypatch.setattr("psutil.virtual_memory", lambda: NoMemory)
    with pytest.raises(NotEnoughMemory, match=r"grams of 7 rows.*3 classes.*by_class"):
        data.count()


class NoMemory:
    available = 300


def test_the_block_of_a_layout():
    block = [dense(-9, 9, scale=4, by_class=True), constant(4, by_class=True)]
    linear = Layout(block)
    other = Block("other", scale=8, low=-32767, high=32767)
    wider = Layout([*block, other])
    alone = Layout([dense(-9, 9, scale=4), constant(4)])
    assert wider.class_layout == linear.class_layout == alone
    assert alone.class_layout is None
    assert Layout.from_json(wider.to_json()) == wider
    assert (wider.only_classes, linear.only_classes) == (False, True)
    tables = tables_of([3])
    for wrong in (block[:1], [other, *block], [*tables, *block]):
        with pytest.raises(SettingsError, match="counted by class"):
            Layout(wrong)


def test_small_classes_are_disclosed():
    data = fixed_data("random-features by class", samples=60)
    told = [text for text in find_exposure(data.count()).details if "by class" in text]
    few = sum(n for n in np.bincount(data.labels) if n <= 7)
    assert [f"{few:,} of 60" in text for text in told] == ([True] if few else [])
    small = find_exposure(data.part(slice(12)).count()).details
    assert any("12 of 12. Each of these classes" in text for text in small)
