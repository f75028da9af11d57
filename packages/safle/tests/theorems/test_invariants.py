"""Whatever a data set gives passes; whatever no data set can give is named."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from safle import EmbeddingEncoder, LinearEncoder, Statistics, count
from safle.encoders.codes import CodeSpace, Layout
from safle.errors import InvariantError, SafleError
from safle.statistics import triangle
from safle.statistics.gram import Triangle
from support.data_sets import data_sets, fixed_data, repeated
from support.layouts import constant, dense


def with_gram(statistics, *changes):
    """Statistics with (row, column, change) added to their gram."""
    gram = statistics.gram_square()
    for row, column, change in changes:
        gram[row, column] += change
        if row != column:
            gram[column, row] += change
    return with_square(statistics, gram)


def with_square(statistics, gram):
    packed = gram[np.triu_indices(statistics.dim)].astype(statistics.gram.packed.dtype)
    return replace(statistics, gram=Triangle(packed, statistics.dim))


def with_entry(statistics, row, column, value):
    return with_gram(statistics, (row, column, value - statistics.gram_square()[row, column]))


def with_cross(statistics, *changes):
    """Statistics with (row, class, change) added to their class sums."""
    cross = statistics.cross.copy()
    for row, name, change in changes:
        cross[row, name] += change
    return replace(statistics, cross=cross)


def refused(statistics, invariant):
    """What no data set can give is refused, by the name of the invariant."""
    with pytest.raises(InvariantError, match=invariant):
        statistics.verify()


def rows_of(statistics, expert):
    return list(range(statistics.offsets[expert], statistics.offsets[expert + 1]))


@given(data_sets())
def test_invariants_hold_for_all_counted_sums(drawn):
    statistics = drawn.count()
    statistics.verify()
    (statistics + statistics).verify()
    (statistics + statistics - statistics).verify()


@given(data=st.data())
def test_a_single_wrong_number_is_always_found(data):
    statistics = data.draw(data_sets(1)).count()
    field = data.draw(st.sampled_from(["gram", "cross", "class_counts"]))
    array = (statistics.gram.packed if field == "gram" else getattr(statistics, field)).copy()
    at = data.draw(st.integers(0, array.size - 1))
    if field == "gram":
        # Products of two dense columns are free, within what the others allow.
        free = triangle.packed_size(statistics.layout.dense_dim)
        assume(at < array.size - free)
    change = data.draw(st.integers(-(2**31) + 1, 2**31 - 1).filter(bool))
    value = int(array.flat[at]) + change
    assume(abs(value) < 2**31)
    array.flat[at] = value
    changed = Triangle(array, statistics.dim) if field == "gram" else array
    with pytest.raises(InvariantError):
        replace(statistics, **{field: changed}).verify()


def test_shapes_types_codes_and_classes_are_checked():
    s = fixed_data("embedding").count()
    wide = s.gram.packed.astype(np.int64)
    with pytest.raises(InvariantError, match="shape: gram"):
        Triangle(wide[:-1], s.dim)
    for broken, name in (
        ({"cross": s.cross[:, :-1]}, "shape: cross"),
        ({"class_counts": s.class_counts[:-1]}, "shape: class_counts"),
        ({"gram": Triangle(wide, s.dim)}, "shape: gram is int64"),
        ({"codes": s.codes[::-1].copy()}, "codes: not ascending"),
        ({"codes": s.codes - s.codes[0] - 1}, "codes: not ascending"),
        ({"codes": s.codes + 10**6}, "codes: not ascending"),
        ({"class_names": (2, 1, 0)}, "class names"),
        ({"class_counts": np.append(s.class_counts[:-1], 0)}, "class counts"),
        ({"class_counts": -s.class_counts}, "class counts"),
        ({"class_counts": s.class_counts * 2**40}, "class counts.*exceed"),
        ({"class_counts": np.full(3, 2**62)}, "class counts.*exceed"),
    ):
        refused(replace(s, **broken), name)
    for names in ((0, 1, "2"), (0, 1, 1)):
        with pytest.raises(SafleError, match="class names"):
            replace(s, class_names=names).verify()
    nothing = Triangle(s.gram.packed[:0], 0)
    without = replace(s, codes=s.codes[:0], gram=nothing, cross=s.cross[:0])
    refused(without, "cross rows sum to the class counts")


def test_counts_of_codes():
    s = fixed_data("embedding").count()
    refused(with_entry(s, 0, 0, 0), r"diagonal: not so at expert 0, symbol \d")
    refused(with_gram(s, (3, 3, 1)), "cross rows sum to the diagonal")
    first = s.cross[0, 0]
    negative = with_cross(s, (0, 0, -first - 1), (0, 1, first + 1))
    refused(negative, "cross lies between zero and the class counts")
    row = int(np.argmax(s.cross[:, 0] > 0))
    moved = with_cross(s, (row, 0, -1), (row, 1, 1))
    refused(moved, "cross rows sum to the class counts")
    (a, b), (c, d) = rows_of(s, 0)[:2], rows_of(s, 1)[:2]
    refused(with_entry(s, a, b, 1), "own block is diagonal.*expert 0")
    refused(with_gram(s, (a, c, 1)), "a block's margins.*expert 0.*expert 1")
    # A switch of two pairs keeps all margins; one entry becomes negative.
    pairs = s.gram_square()[a, c] + 1
    switched = with_gram(s, (a, c, -pairs), (b, d, -pairs), (a, d, pairs), (b, c, pairs))
    refused(switched, "nothing is negative")


def test_sums_that_wrap_around_are_found():
    # Four times 2**62 is 0 modulo 2**64: every margin still agrees.
    data = fixed_data("embedding")
    names = np.arange(len(data)) % 4
    statistics = replace(data, labels=names).count()
    changes = [(row, name, 2**62) for row in rows_of(statistics, 0)[:4] for name in range(4)]
    refused(with_cross(statistics, *changes), "cross lies between zero and the class counts")
    dense = replace(fixed_data("table"), labels=names).count()
    # And four times 2**30 is 0 modulo 2**32.
    pairs = product(rows_of(dense, 0)[:4], rows_of(dense, 1)[:4])
    refused(with_gram(dense, *((*pair, 2**30) for pair in pairs)), "a block's margins")


def test_sums_of_dense_columns():
    data = fixed_data("table")
    # Two codes of each expert: a number that is there, and one that is not.
    data.features[::7] = np.nan
    s = data.count()
    first, (a, b) = len(s.codes), rows_of(s, 0)[:2]
    constant = first + int(s.layout.constants[0])
    for value in (-1, s.sample_count * 32_767**2 + 1):
        refused(with_entry(s, first, first, value), "dense squares")
    x, y = s.diagonal[first : first + 2].tolist()
    for value in (int((x * y) ** 0.5 * 1.01), -int((x * y) ** 0.5 * 1.01), -(2**63)):
        refused(with_entry(s, first, first + 1, value), r"semidefinite|ranges, totals")
    for row, change in ((first, 40_000 * int(s.class_counts.max())), (constant, 1)):
        moved = with_cross(s, (row, 0, change), (row, 1, -change))
        refused(moved, "class sums fit the encoder's range")
    refused(with_gram(s, (first, constant, 1)), "ranges, totals")
    # Moved between two codes of one expert, the totals still agree.
    refused(with_gram(s, (a, constant, 1), (b, constant, -1)), "ranges, totals")
    refused(with_gram(s, (a, first, 1)), "dense sums add up to the totals: not so in expert 0")
    huge = 40_000 * int(s.diagonal[[a, b]].max())
    refused(with_gram(s, (a, first, huge), (b, first, -huge)), "ranges, totals")
    refused(with_entry(s, a, first, -(2**31)), "ranges, totals")


def test_products_that_no_columns_can_have_together():
    s = fixed_data("linear").count()
    power = np.sqrt(s.diagonal.astype(float))
    # Each pair on its own could be so; all three cannot.
    impossible = s
    for i, j in ((0, 1), (0, 2), (1, 2)):
        impossible = with_entry(impossible, i, j, int(-0.99 * power[i] * power[j]))
    refused(impossible, "semidefinite")
    without_power = with_cross(s, (0, 0, 200_000), (0, 1, -200_000))
    refused(without_power, "smaller than the class sums allow")
    refused(with_gram(s, (0, 0, 1)), "even where the totals are even")
    s = fixed_data("random-features").count()
    narrow = np.flatnonzero(s.layout.low == 0).tolist()
    for value in (-1, 16 * int(s.totals[narrow[:2]].min())):
        refused(with_entry(s, *narrow[:2], value), "ranges, totals")


def test_experts_that_agree_pairwise_but_not_all_three_are_found():
    # Two samples; A = B and B = C in both, but A != C.
    encoder = EmbeddingEncoder(np.zeros((1, 3)), buckets=1, group_size=1)
    counted = count(encoder, [[-1, -1, -1], [1, 1, 1]], [0, 0])
    rows = [np.flatnonzero(counted.codes // 2 == expert) for expert in range(3)]
    gram = counted.gram_square()
    block = np.ix_(rows[0], rows[2])
    gram[block] = gram[block][::-1]
    gram[np.ix_(rows[2], rows[0])] = gram[block].T
    refused(with_square(counted, gram), "semidefinite")


def test_products_beyond_their_squares_are_found_exactly():
    """What is wrong by a billionth is wrong: an entry 10^4 too large once passed."""
    data = fixed_data("linear", samples=100, feature_dim=3)
    encoder = LinearEncoder(np.zeros(3), np.ones(3))
    # 26 million samples, two columns of them alike, and a constant one.
    twins = repeated(count(encoder, data.features[:, [0, 0, 2]], data.labels), 260_000)
    twins.verify()
    product_of_both = twins.gram_square()[0, 1]
    assert twins.diagonal[0] == product_of_both > 10**4 / 1e-8
    for change in (1, 10**4):
        for value in (product_of_both + change, -product_of_both - change):
            refused(with_entry(twins, 0, 1, value), "ranges, totals and squares")
    for change in (1, -1):
        refused(with_gram(twins, (0, 3, change)), "ranges, totals and squares")


def test_invariants_bound_squares_by_the_class_sums():
    encoder = LinearEncoder(np.zeros(1), np.ones(1))
    # Of equal samples, the square is just what the class sums say.
    counted = repeated(count(encoder, [[2.0], [2.0], [-1.0]], [0, 0, 1]), 9_000_001)
    counted.verify()
    refused(with_gram(counted, (0, 0, -2)), "smaller than the class sums allow")


def test_sums_of_as_many_samples_as_there_can_be_are_checked_exactly():
    layout = Layout([dense(-32767, 32767, columns=2), constant()])
    n = layout.most_samples
    row = np.array([32767, -32767, 1], object)
    gram = (n * np.outer(row, row)).astype(np.int64)[np.triu_indices(3)]
    sums = (n * row[:, None]).astype(np.int64), (0,), np.array([n])
    space = CodeSpace("0" * 64, layout)
    counted = Statistics(space, np.empty(0, np.int64), *sums, Triangle(gram, 3))
    counted.verify()
    for (i, j), change in product(((0, 1), (0, 2), (1, 2)), (1, -1)):
        refused(with_gram(counted, (i, j, change)), "ranges, totals and squares")
