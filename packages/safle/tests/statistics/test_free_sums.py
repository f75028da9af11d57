"""Free sums: one vector from which all of statistics follow, and not more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle import Statistics, sum_statistics
from safle.encoders.codes import CodeSpace, Layout, tables_of
from safle.errors import InvariantError
from safle.statistics.free_sums import FreeSums, restore_all, spread_all, take_all
from support.data_sets import BY_CLASS, KINDS, data_sets, fixed_data
from support.layouts import constant, dense

NAMES = [0, 1, 2, 7]


@given(data_sets(), st.booleans())
def test_all_sums_follow_from_the_free_ones(data, only_seen):
    counted = data.count()
    codes = counted.codes if only_seen else None
    names = counted.class_names if only_seen else sorted({*counted.class_names, "z", "ä"}, key=str)
    if names and len({type(name) for name in names}) > 1:
        names = [*counted.class_names, 2 * 10**12]
    free = FreeSums(counted.layout, len(names), codes)
    vector = free.take(counted, names)
    assert len(vector) == free.size
    found = free.value(counted.fingerprint, names, vector)
    assert found == replace(counted, by_class=())
    if not only_seen:
        whole = restore_all(counted.space, names, take_all(counted, names))
        assert whole == counted


@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS])
def test_vectors_add_up_as_statistics_do(kind):
    data = fixed_data(kind)
    parts = [data.part(slice(at, None, 3)).count() for at in range(3)]
    space = data.encoder.space
    total = sum(take_all(part, NAMES) for part in parts)
    assert restore_all(space, NAMES, total) == sum_statistics(parts)
    empty = Statistics.empty(space)
    nothing = take_all(empty, NAMES)
    assert not nothing.any()
    assert restore_all(space, NAMES, nothing) == empty


@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS])
def test_free_sums_have_no_entry_that_follows_from_others(kind):
    """Whatever is changed in the vector changes the statistics, and only there."""
    data = fixed_data(kind, samples=60, feature_dim=3)
    free = FreeSums(data.encoder.layout, 3)
    vector = free.take(data.count(), [0, 1, 2])
    for at in np.random.default_rng(0).integers(0, free.size, 40).tolist():
        changed = vector.copy()
        changed[at] += 1
        value = free.restore(data.encoder.fingerprint, [0, 1, 2], changed)
        assert np.array_equal(free.take(value, [0, 1, 2]), changed)


@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS])
def test_free_sums_bound_every_entry(kind):
    data = fixed_data(kind)
    layout = data.encoder.layout
    vector = take_all(data.count(), [0, 1, 2])
    largest = spread_all(layout, 3, FreeSums(layout, 3).largest)
    assert (np.abs(vector) <= len(data) * largest).all()


def test_squares_stand_where_the_vector_says():
    layout = Layout(
        [
            *tables_of([3, 2]),
            dense(-9, 9, scale=4),
            dense(4, 8, scale=8),
            constant(4),
            dense(0, 1, scale=2),
        ]
    )
    free = FreeSums(layout, 2)
    of_columns = np.array([2, 3, 5, 7, 11, 13])
    assert len(free.rows) == len(of_columns)
    assert free.spread(of_columns)[free.squares].tolist() == [49, 121, 169]


def test_products_so_large_that_sums_of_them_would_wrap_are_refused():
    free = FreeSums(Layout(tables_of([2, 2])), 1)
    vector = free.take(Statistics.empty(CodeSpace("0" * 64, free.layout)), ["a"])
    vector[free.products] = -(2**63)
    with pytest.raises(InvariantError, match="larger than"):
        free.restore("0" * 64, ["a"], vector)


def test_an_entry_that_does_not_fit_the_integers_of_its_gram_is_refused_not_wrapped():
    """As a liar's masked contribution may open: squares of 32 bits, a product of more."""
    layout = Layout([dense(-9, 9, scale=4, columns=2), constant(4)])
    free = FreeSums(layout, 1)
    vector = np.zeros(free.size, np.int64)
    vector[free.counts] = 10
    vector[free.products] = 100, 2**32 + 3, 100
    with pytest.raises(InvariantError, match="larger than the squares"):
        free.value("0" * 64, ["a"], vector)
