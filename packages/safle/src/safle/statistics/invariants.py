"""Invariants that the statistics of any data set obey; those from outside are checked.

With n samples, expert blocks a, b and dense columns x within [l, h]:

- every expert's diagonal block is diagonal and sums to n; a block of two experts is
  non-negative and its margins are their diagonals; the sums of a dense column over an expert's
  codes add up to its total;
- rows of cross sum to the totals, an expert's rows to the class counts, and a class of m
  samples has sums within [m l, m h];
- squares of columns that are clipped to a norm B sum to at most ``n B^2``;
- ``sum x^2`` has the parity of ``sum x``, and ``(x - l)(y - m) >= 0`` and its kin bound every
  ``sum x y`` by the totals (a constant column repeats them);
- the products of all columns and the one-hot labels, ``[[N, M'], [M, C]]``, are positive
  semidefinite;
- where columns are counted by class, each class's own sums are those of samples too, and add up.

All of these are checked in exact integers, except semidefiniteness. That is exact for two columns
(``c_ij^2 <= c_ii c_jj``), and for a column and the labels (``c_ii >= sum_k m_ik^2 / n_k``). For
more columns, the matrix scaled to a unit diagonal may have eigenvalues down to
``-min(1e-8, 4 (D + K)^2 2^-53)``, D columns and K classes, because rounding alone can turn zero
into that. So an entry c_ij that only three or more columns together rule out passes if it is wrong
by less than about that times ``(c_ii c_jj)^1/2``.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from safle._native import Kernel
from safle._native.cores import blas_for
from safle.basics.memory import require_free_memory
from safle.errors import InvariantError
from safle.statistics import triangle
from safle.statistics.triangle import Integers, Packed
from safle.tables.checks import as_class_names

if TYPE_CHECKING:
    from safle.statistics.statistics import Margins, Sums

MAX_SHIFT = 1e-8
"""A matrix of unit diagonal is semidefinite if it is definite with this added to its diagonal;
for few columns less is added, 4 (D + K)^2 2^-53, since rounding then does less."""
ROWS_AT_A_TIME = 256
ROUNDING_SHARE = 1e-9
"""A float that is larger by this relative difference is truly larger: rounding does less."""


_find_broken_pair = Kernel(
    "find_broken_pair",
    "offsets i8[experts + 1] <dim + 1; experts; dim; gram i4|i8[packed(dim)]; diagonal i8[dim]",
    "found i8[experts, 2]!; column_sums i8[offsets[-1]]~",
    pieces="experts",
)
_find_impossible = Kernel(
    "find_impossible",
    "gram i4|i8[packed(dim)]; dim; first_column; low i8[dim]; high i8[dim]; total i8[dim]",
    "power i8[dim]; n; narrow; found i8[dim]!",
    pieces="dim",
)


def verify_margins(margins: Margins) -> None:
    """Check what holds without the gram, before anything of the gram's size is decompressed."""
    if margins.cross.shape != (margins.dim, len(margins.class_names)):
        fail("shape", f"cross has shape {margins.cross.shape}, expected a row for each column")
    if margins.class_counts.shape != (len(margins.class_names),):
        fail("shape", f"class_counts has shape {margins.class_counts.shape}")
    codes = margins.codes
    layout = margins.layout
    if (np.diff(codes) <= 0).any() or (
        len(codes) and not 0 <= codes[0] <= codes[-1] < layout.code_count
    ):
        fail("codes", f"not ascending within 0..{layout.code_count - 1}")
    _check_classes(margins)
    _check_class_sums(margins)


@blas_for()
def verify(statistics: Sums) -> None:
    """Raise `InvariantError` naming the invariant that fails, and where."""
    verify_margins(statistics)
    _check_diagonal(statistics, statistics.gram.diagonal)
    statistics.gram.verify(statistics)
    _check_by_class(statistics)


def verify_triangle(margins: Margins, packed: Packed, diagonal: Integers) -> None:
    """Check a whole gram, whose diagonal has been checked against these margins."""
    _check_products(margins, packed, diagonal)
    _check_semidefinite(margins, packed, diagonal)


def find_impossible(s: Margins, gram: Packed, first: int, power: Integers) -> Integers:
    """Places (row, column), column >= ``first``, of entries that no samples have, exactly.

    Their bounds are ``(x - l)(y - m) >= 0`` and its three kin, summed over the samples, and
    Cauchy's and Schwarz's inequality. ``power`` is the diagonal, and not negative.
    """
    found = np.full(s.dim, -1, np.int64)
    reach = int(max(np.abs(s.low).max(initial=1), np.abs(s.high).max(initial=1)))
    # Each bound adds an entry and three products: if narrow, these fit 64 bits.
    narrow = 4 * s.sample_count * reach**2 < 1 << 62 and int(power.max(initial=0)) < 1 << 62
    _find_impossible(
        gram, first, s.low, s.high, s.totals, power, s.sample_count, int(narrow), found
    )
    rows = np.flatnonzero(found >= 0)
    return np.column_stack([rows, found[rows]])


def fail(invariant: str, found: str) -> NoReturn:
    """Raise the error of an invariant that does not hold."""
    raise InvariantError(f"{invariant}: {found}; these are not sums of any data set")


def _fail_at_row(s: Margins, invariant: str, wrong: NDArray[np.bool_], first: int = 0) -> None:
    """Fail at the first row of ``wrong``, (rows, width), that holds a True."""
    rows = np.flatnonzero(wrong.any(axis=1))
    if len(rows):
        fail(invariant, f"not so at {_place(s, first + int(rows[0]))}")


def _check_classes(s: Margins) -> None:
    if as_class_names(s.class_names) != s.class_names:
        fail("class names", "not in ascending order")
    if (s.class_counts <= 0).any():
        fail("class counts", "a listed class has no samples")
    if sum(s.class_counts.tolist()) > s.layout.most_samples:
        fail("class counts", f"{s.class_counts.sum()} samples exceed {s.layout.most_samples}")


def _check_class_sums(s: Margins) -> None:
    seen = len(s.codes)
    counts = s.class_counts
    cross = s.cross[:seen]
    sums = s.cross[seen:]
    within = "cross lies between zero and the class counts"
    _fail_at_row(s, within, (cross < 0) | (cross > counts))
    _fail_at_row(s, "every listed code occurs", (cross == 0).all(axis=1, keepdims=True))
    for expert, (first, last) in enumerate(pairwise(s.offsets)):
        if not np.array_equal(cross[first:last].sum(axis=0), counts):
            fail("an expert's cross rows sum to the class counts", f"not so in expert {expert}")
    low = np.outer(s.layout.low, counts)
    high = np.outer(s.layout.high, counts)
    _fail_at_row(s, "class sums fit the encoder's range", (sums < low) | (sums > high), seen)


def _check_diagonal(s: Margins, diagonal: Integers) -> None:
    seen = len(s.codes)
    differ = (diagonal[:seen] != s.totals[:seen])[:, None]
    _fail_at_row(s, "cross rows sum to the diagonal", differ)
    # In Python's integers, which do not wrap: (x - l)(x - h) <= 0 and |x| <= x^2, summed.
    low = s.layout.low.astype(object)
    high = s.layout.high.astype(object)
    totals = s.totals[seen:].astype(object)
    power = diagonal[seen:]
    most = (low + high) * totals - s.sample_count * low * high
    if ((power > most) | (power < abs(totals))).any():
        fail("dense squares", "beyond what the encoder's range and the totals allow")
    _check_labels(s, power)
    for block, place in s.layout.dense_blocks:
        if block.norm and sum(power[place].tolist()) > s.sample_count * block.norm**2:
            fail("dense squares", f"more than samples clipped at {block.norm} have")
    if ((power ^ s.totals[seen:]) & 1).any():
        fail("dense squares", "expected to be even where the totals are even, odd where odd")


def _check_labels(s: Margins, power: Integers) -> None:
    """Check that squares are at least those of the class means: ``sum_k m_ik^2 / n_k``."""
    sums = s.cross[len(s.codes) :]
    rough = (np.square(sums.astype(np.float64)) / s.class_counts).sum(axis=1)
    counts = s.class_counts.tolist()
    for column in np.flatnonzero(power < rough * (1 + ROUNDING_SHARE)).tolist():
        exact = sum(Fraction(m * m, n) for m, n in zip(sums[column].tolist(), counts, strict=True))
        if power[column] < exact:
            fail("dense squares", "smaller than the class sums allow")


def _check_products(s: Margins, packed: Packed, diagonal: Integers) -> None:
    seen = len(s.codes)
    dense = s.layout.dense_dim
    if packed.dtype != triangle.entry_type(diagonal):
        fail("shape", f"gram is {packed.dtype}, too wide or too narrow for its squares")
    broken = np.full((s.layout.experts if seen else 0, 2), -1, np.int64)
    if seen:
        _find_broken_pair(s.offsets, packed, diagonal, broken)
    margins = (
        "a block's margins are its experts' diagonals, its own block is diagonal and nothing is "
        "negative"
    )
    _fail_at_pair(s, margins, broken[broken[:, 0] >= 0])
    if not dense:
        return
    impossible = find_impossible(s, packed, seen, diagonal)
    _fail_at_pair(s, "a product of two columns fits their ranges, totals and squares", impossible)
    if seen:
        starts = triangle.start(np.arange(seen), s.dim) + seen
        mixed = np.array([packed[at : at + dense] for at in starts.tolist()], np.int64)
        sums = np.add.reduceat(mixed, s.offsets[:-1], axis=0)
        wrong = np.flatnonzero((sums != s.totals[seen:]).any(axis=1))
        if len(wrong):
            fail("an expert's dense sums add up to the totals", f"not so in expert {wrong[0]}")


def _fail_at_pair(s: Margins, invariant: str, places: Integers) -> None:
    """Fail at the first of some places (row, column) of the gram."""
    for row, column in places[:1].tolist():
        fail(invariant, f"not so between {_place(s, row)} and {_place(s, column)}")


def _check_semidefinite(s: Margins, packed: Packed, diagonal: Integers) -> None:
    """By a Cholesky factorisation of ``C - M inverse(N) M'``, scaled to a unit diagonal of C."""
    size = s.dim
    require_free_memory(
        16 * triangle.packed_size(size),
        purpose=f"checking the products of {size} columns",
        advice="use a machine with more memory, or an encoder with fewer columns",
    )
    shift = min(MAX_SHIFT, 4 * (size + len(s.class_names)) ** 2 * 2.0**-53)
    power = diagonal.astype(np.float64)
    if triangle.gather_columns(packed, size, np.flatnonzero(power <= 0)).any():
        fail("a column whose square is zero has no products", "one has")
    scale = 1 / np.sqrt(np.where(power > 0, power, 1.0))
    means = s.cross * scale[:, None] / np.sqrt(s.class_counts.astype(np.float64))
    scaled = packed.astype(np.float64)
    for top in range(0, size, ROWS_AT_A_TIME):
        with blas_for():
            between = means[top : top + ROWS_AT_A_TIME] @ means[top:].T
        for row in range(top, min(top + ROWS_AT_A_TIME, size)):
            at = triangle.start(row, size) + row
            scaled[at : at + size - row] *= scale[row] * scale[row:]
            scaled[at : at + size - row] -= between[row - top, row - top :]
            scaled[at] += shift
    full, _ = lapack.dtpttf(size, scaled, uplo="L")
    del scaled
    with blas_for(size**3 / 3):
        _, info = lapack.dpftrf(size, full, uplo="L", overwrite_a=1)
    if info:
        semidefinite = "the products of columns and labels are semidefinite"
        fail(semidefinite, f"not so at {_place(s, info - 1)}")


def _check_by_class(s: Sums) -> None:
    """Check each class by itself, and that the classes add up to the first columns of the whole."""
    block = s.layout.class_layout
    if len(s.by_class) != (len(s.class_names) if block else 0):
        fail("shape", f"sums of {len(s.by_class)} classes; there are {len(s.class_names)}")
    if block is None or not s.by_class:
        return
    total = np.zeros(triangle.packed_size(block.dim), np.int64)
    for place, (name, part) in enumerate(zip(s.class_names, s.by_class, strict=True)):
        try:
            _check_margins_alike(part, s.of_class(place))
            verify(part)
        except InvariantError as error:
            raise InvariantError(f"class {name!r}: {error}") from error
        part.gram.add_to(total, block.dim, np.arange(block.dim))
    columns = np.arange(block.dim)
    if not np.array_equal(s.gram.columns(columns, columns), triangle.to_square(total, block.dim)):
        fail("the products of the classes add up", "they do not")


def _check_margins_alike(part: Margins, expected: Margins) -> None:
    """Check that a class's own margins are its part of the whole's."""
    if (
        part.space != expected.space
        or part.class_names != expected.class_names
        or not np.array_equal(part.class_counts, expected.class_counts)
        or not np.array_equal(part.cross, expected.cross)
    ):
        fail("the sums of a class are those of the whole", "they are not")


def _place(s: Margins, row: int) -> str:
    if row >= len(s.codes):
        return f"dense column {row - len(s.codes)}"
    expert = int(np.searchsorted(s.layout.bases, s.codes[row], side="right")) - 1
    return f"expert {expert}, symbol {int(s.codes[row] - s.layout.bases[expert])}"
