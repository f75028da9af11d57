"""Whatever a data set gives passes; whatever no data set can give is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from safle.encoders import EmbeddingEncoder, LinearEncoder
from safle.encoders.codes import CodeSpace, Layout
from safle.errors import InvariantError, SafleError
from safle.statistics import Statistics, count, triangle
from safle.statistics.gram import Triangle
from support.data_sets import data_sets, fixed_data, repeated


def square(statistics):
    return statistics.gram_square()


def with_square(statistics, gram):
    packed = gram[np.triu_indices(statistics.dim)].astype(statistics.gram.packed.dtype)
    return replace(statistics, gram=Triangle(packed, statistics.dim))


def with_entry(statistics, row, column, value):
    gram = square(statistics)
    gram[row, column] = gram[column, row] = value
    return with_square(statistics, gram)


def with_cross(statistics, *changes):
    cross = statistics.cross.copy()
    for row, name, change in changes:
        cross[row, name] += change
    return replace(statistics, cross=cross)


def refused(statistics, invariant):
    """What no data set can give is refused, by the name of the invariant."""
    with pytest.raises(InvariantError, match=invariant) as error:
        statistics.verify()
    return str(error.value)


def rows_of(statistics, expert):
    return range(statistics.offsets[expert], statistics.offsets[expert + 1])


@given(data_sets())
def test_what_was_counted_always_passes(drawn):
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


@pytest.fixture(scope="module")
def counted():
    data = fixed_data("table")
    # Two codes of each expert: a number that is there, and one that is not.
    data.features[::7] = np.nan
    return data.count()


@pytest.fixture(scope="module")
def embedded():
    return fixed_data("embedding").count()


def test_shapes_and_types_are_checked(embedded):
    wide = embedded.gram.packed.astype(np.int64)
    with pytest.raises(InvariantError, match="shape: gram"):
        Triangle(wide[:-1], embedded.dim)
    for broken, name in (
        (replace(embedded, cross=embedded.cross[:, :-1]), "shape: cross"),
        (replace(embedded, class_counts=embedded.class_counts[:-1]), "shape: class_counts"),
        (replace(embedded, gram=Triangle(wide, embedded.dim)), "shape: gram is int64"),
        (replace(embedded, codes=embedded.codes[::-1].copy()), "codes: not ascending"),
        (replace(embedded, codes=embedded.codes - embedded.codes[0] - 1), "codes: not ascending"),
        (replace(embedded, codes=embedded.codes + 10**6), "codes: not ascending"),
    ):
        refused(broken, name)


def test_classes_are_checked(embedded):
    counts = embedded.class_counts
    for broken, name in (
        (replace(embedded, class_names=(2, 1, 0)), "class names"),
        (replace(embedded, class_counts=np.append(counts[:-1], 0)), "class counts"),
        (replace(embedded, class_counts=-counts), "class counts"),
        (replace(embedded, class_counts=counts * 2**40), "class counts.*exceed"),
        (replace(embedded, class_counts=np.full(3, 2**62)), "class counts.*exceed"),
    ):
        refused(broken, name)
    for names in ((0, 1, "2"), (0, 1, 1)):
        with pytest.raises(SafleError, match="class names"):
            replace(embedded, class_names=names).verify()


def test_the_diagonal_is_positive_and_repeats_cross(embedded):
    refused(with_entry(embedded, 0, 0, 0), r"diagonal: not so at expert 0, symbol \d")
    more = embedded.diagonal[3] + 1
    refused(with_entry(embedded, 3, 3, more), "cross rows sum to the diagonal")


def test_cross_is_within_its_class_and_adds_up(embedded):
    first = embedded.cross[0, 0]
    refused(
        with_cross(embedded, (0, 0, -first - 1), (0, 1, first + 1)),
        "cross lies between zero and the class counts",
    )
    row = int(np.argmax(embedded.cross[:, 0] > 0))
    refused(with_cross(embedded, (row, 0, -1), (row, 1, 1)), "cross rows sum to the class counts")


def test_sums_that_wrap_around_are_found():
    # Four times 2**62 is 0 modulo 2**64: every margin still agrees.
    data = fixed_data("embedding")
    names = np.arange(len(data)) % 4
    statistics = replace(data, labels=names).count()
    rows = [list(rows_of(statistics, 0))[k] for k in range(4)]
    changes = [(row, name, 2**62) for row in rows for name in range(4)]
    refused(with_cross(statistics, *changes), "cross lies between zero and the class counts")
    dense = replace(fixed_data("table"), labels=names).count()
    gram = square(dense)
    a, b = list(rows_of(dense, 0))[:4], list(rows_of(dense, 1))[:4]
    # And four times 2**30 is 0 modulo 2**32.
    gram[np.ix_(a, b)] += 2**30
    refused(with_square(dense, gram), "a block's margins")


def test_blocks_are_diagonal_or_have_their_margins(embedded):
    (a, b), (c, d) = list(rows_of(embedded, 0))[:2], list(rows_of(embedded, 1))[:2]
    gram = square(embedded)
    assert "expert 0" in refused(with_entry(embedded, a, b, 1), "own block is diagonal")
    told = refused(with_entry(embedded, a, c, gram[a, c] + 1), "a block's margins")
    assert "expert 0" in told
    assert "expert 1" in told
    # A switch of two pairs keeps all margins; one entry becomes negative.
    switch = gram[a, c] + 1
    for row, column, sign in ((a, c, -1), (b, d, -1), (a, d, 1), (b, c, 1)):
        gram[row, column] += sign * switch
    refused(with_square(embedded, gram), "nothing is negative")


def test_dense_squares_and_products_are_bounded(counted):
    first = len(counted.codes)
    limit = counted.sample_count * 32_767**2
    for value in (-1, limit + 1):
        refused(with_entry(counted, first, first, value), "dense squares")
    x, y = counted.diagonal[first : first + 2].tolist()
    for value in (int((x * y) ** 0.5 * 1.01), -int((x * y) ** 0.5 * 1.01), -(2**63)):
        refused(with_entry(counted, first, first + 1, value), r"semidefinite|ranges, totals")


def constant_of(statistics):
    return len(statistics.codes) + int(statistics.layout.constants[0])


def test_dense_class_sums_are_bounded(counted):
    first = len(counted.codes)
    huge = 40_000 * int(counted.class_counts.max())
    refused(
        with_cross(counted, (first, 0, huge), (first, 1, -huge)),
        "class sums fit the encoder's range",
    )
    refused(
        with_cross(counted, (constant_of(counted), 0, 1), (constant_of(counted), 1, -1)),
        "class sums fit the encoder's range",
    )


def test_the_constant_column_repeats_what_is_known(counted):
    last = constant_of(counted)
    gram = square(counted)
    refused(
        with_entry(counted, len(counted.codes), last, gram[len(counted.codes), last] + 1),
        "ranges, totals",
    )
    # Moved between two codes of one expert, the totals still agree.
    a, b = list(rows_of(counted, 0))[:2]
    gram[a, last] += 1
    gram[b, last] -= 1
    refused(with_square(counted, gram), "ranges, totals")


def test_code_sums_of_dense_columns_are_bounded_and_add_up(counted):
    dense = len(counted.codes)
    gram = square(counted)
    a, b = list(rows_of(counted, 0))[:2]
    refused(
        with_entry(counted, a, dense, gram[a, dense] + 1),
        "dense sums add up to the totals: they do not in 0",
    )
    huge = 40_000 * int(counted.diagonal[[a, b]].max())
    gram[a, dense] += huge
    gram[b, dense] -= huge
    refused(with_square(counted, gram), "ranges, totals")
    refused(with_entry(counted, a, dense, -(2**31)), "ranges, totals")


def test_samples_without_codes_are_found(embedded):
    nothing = replace(
        embedded,
        codes=embedded.codes[:0],
        gram=Triangle(embedded.gram.packed[:0], 0),
        cross=embedded.cross[:0],
    )
    refused(nothing, "cross rows sum to the class counts")


def impossible(counted, rows, change):
    """Statistics whose products of some dense columns were changed, all the rest being true."""
    gram = square(counted)
    for row, column, value in change:
        place = rows[row], rows[column]
        gram[place] = gram[place[::-1]] = value
    return with_square(counted, gram)


def test_correlations_that_no_three_columns_can_have_are_found():
    counted = fixed_data("linear").count()
    power = np.sqrt(counted.diagonal.astype(float))
    # Each pair on its own could be so; all three cannot.
    change = [(i, j, int(-0.99 * power[i] * power[j])) for i, j in ((0, 1), (0, 2), (1, 2))]
    refused(impossible(counted, range(3), change), "semidefinite")


def test_experts_that_agree_pairwise_but_not_all_three_are_found():
    # Two samples; A = B and B = C in both, but A != C.
    encoder = EmbeddingEncoder(np.zeros((1, 3)), buckets=1, group_size=1)
    counted = count(encoder, [[-1, -1, -1], [1, 1, 1]], [0, 0])
    rows = [np.flatnonzero(counted.codes // 2 == expert) for expert in range(3)]
    gram = square(counted)
    block = np.ix_(rows[0], rows[2])
    gram[block] = gram[block][::-1]
    gram[np.ix_(rows[2], rows[0])] = gram[block].T
    refused(with_square(counted, gram), "semidefinite")


def test_class_sums_without_power_are_found():
    counted = fixed_data("linear").count()
    cross = counted.cross.copy()
    cross[0, 0] += 200_000
    cross[0, 1] -= 200_000
    refused(replace(counted, cross=cross), "smaller than the class sums allow")


def test_a_square_has_the_parity_of_its_number():
    counted = fixed_data("linear").count()
    refused(with_entry(counted, 0, 0, counted.diagonal[0] + 1), "both even or both odd")


def test_products_beyond_the_units_range_are_found():
    counted = fixed_data("random-features").count()
    narrow = [at for at, (low, _) in enumerate(counted.layout.dense_limits) if low == 0]
    for value in (-1, 16 * int(counted.totals[narrow[:2]].min())):
        refused(with_entry(counted, *narrow[:2], value), "ranges, totals")


@pytest.fixture(scope="module")
def twins():
    """26 million samples, two columns of them alike, and a constant one."""
    data = fixed_data("linear", samples=100, feature_dim=3)
    features = data.features[:, [0, 0, 2]]
    encoder = LinearEncoder(np.zeros(3), np.ones(3))
    counted = repeated(count(encoder, features, data.labels), 260_000)
    assert counted.sample_count == 26_000_000
    counted.verify()
    return counted


@pytest.mark.parametrize("change", [1, 10**4])
def test_products_beyond_their_squares_are_found_exactly(twins, change):
    """What is wrong by a billionth is wrong: an entry 10^4 too large once passed."""
    assert twins.diagonal[0] == square(twins)[0, 1] > 10**4 / 1e-8
    for sign in (1, -1):
        value = sign * (square(twins)[0, 1] + change)
        refused(with_entry(twins, 0, 1, value), "ranges, totals and squares")


def test_products_with_a_constant_are_the_totals_exactly(twins):
    for change in (1, -1):
        refused(with_entry(twins, 0, 3, square(twins)[0, 3] + change), "ranges, totals and squares")


def test_squares_are_no_smaller_than_the_class_sums_allow():
    encoder = LinearEncoder(np.zeros(1), np.ones(1))
    # Of equal samples, the square is just what the class sums say.
    counted = repeated(count(encoder, [[2.0], [2.0], [-1.0]], [0, 0, 1]), 9_000_001)
    counted.verify()
    refused(with_entry(counted, 0, 0, counted.diagonal[0] - 2), "smaller than the class sums allow")


def test_sums_of_as_many_samples_as_there_can_be_are_checked_exactly():
    layout = Layout((), (1, 1, 1), ((-32767, 32767), (-32767, 32767), (1, 1)))
    n = layout.most_samples
    row = np.array([32767, -32767, 1], object)
    gram = (n * np.outer(row, row)).astype(np.int64)[np.triu_indices(3)]
    sums = (n * row[:, None]).astype(np.int64), (0,), np.array([n])
    space = CodeSpace("0" * 64, layout)
    counted = Statistics(space, np.empty(0, np.int64), *sums, Triangle(gram, 3))
    counted.verify()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for change in (1, -1):
            refused(
                with_entry(counted, i, j, square(counted)[i, j] + change),
                "ranges, totals and squares",
            )
