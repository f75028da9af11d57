"""Invariants that any data set's statistics obey; whatever comes from outside must.

With n samples, expert blocks a, b and dense columns x within [l, h]:

- every expert's diagonal block is diagonal and sums to n; a block of two experts is
  non-negative and its margins are their diagonals; so are the sums of a dense column over an
  expert's codes its total;
- rows of cross sum to the totals, an expert's rows to the class counts, and a class of m
  samples has sums within [m l, m h];
- squares of columns that are clipped to a norm B sum to at most ``n B^2``;
- ``sum x^2`` has the parity of ``sum x``, and ``(x - l)(y - m) >= 0`` and its kin bound every
  ``sum x y`` by the totals (a constant column repeats them);
- the products of all columns and the one-hot labels, ``[[N, M'], [M, C]]``, are positive
  semidefinite;
- where columns are counted by class, each class's own sums are those of samples too, and add up.

All of these are checked in exact integers, but for the last but one. Of that, exact are two columns
(``c_ij^2 <= c_ii c_jj``), and a column and the labels (``c_ii >= sum_k m_ik^2 / n_k``). Of more
columns, the matrix scaled to a unit diagonal may have eigenvalues down to
``-min(1e-8, 4 (D + K)^2 2^-53)``, D columns and K classes: what rounding alone can make of zero.
So an entry c_ij that only three or more columns together rule out passes if it is wrong by less
than about that times ``(c_ii c_jj)^1/2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from safle.basics.memory import require
from safle.encoders.features import as_class_names
from safle.errors import InvariantError
from safle.statistics import triangle

if TYPE_CHECKING:
    from safle.statistics.value import Margins, Statistics

SINGULAR = 1e-8
"""A matrix of unit diagonal counts as semidefinite when this much more of it is definite; or less,
where rounding cannot make as much of zero: 4 D^2 2^-53."""
ROWS_AT_A_TIME = 256
CLEAR = 1e-9
"""What is larger by more than this, relatively, is larger: rounding does less."""


@dataclass(frozen=True)
class Bounds:
    """What single columns say about the sums of their products.

    Attributes
    ----------
    low, high, total : int64, (dim,), the range and the sum of each column
    expert : int32, (dim,), the expert of a code; a number of its own for a dense column
    samples : how many there are
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    total: NDArray[np.int64]
    expert: NDArray[np.int32]
    samples: int

    @staticmethod
    def of(s: Margins) -> Bounds:
        seen, limits = len(s.codes), np.array(s.layout.dense_limits, np.int64).reshape(-1, 2)
        owners = np.repeat(np.arange(s.layout.experts), np.diff(s.offsets))
        return Bounds(
            np.concatenate([np.zeros(seen, np.int64), limits[:, 0]]),
            np.concatenate([np.ones(seen, np.int64), limits[:, 1]]),
            s.totals,
            np.concatenate([owners, -1 - np.arange(s.layout.dense_dim)]).astype(np.int32),
            s.sample_count,
        )


def verify_margins(margins: Margins) -> None:
    """Check what holds without the gram: before anything of its size is unfolded."""
    if margins.cross.shape != (margins.dim, len(margins.class_names)):
        fail("shape", f"cross has shape {margins.cross.shape}, expected a row for each column")
    if margins.class_counts.shape != (len(margins.class_names),):
        fail("shape", f"class_counts has shape {margins.class_counts.shape}")
    codes, layout = margins.codes, margins.layout
    if (np.diff(codes) <= 0).any() or (
        len(codes) and not 0 <= codes[0] <= codes[-1] < layout.code_count
    ):
        fail("codes", f"not ascending within 0..{layout.code_count - 1}")
    _check_classes(margins)
    _check_code_sums(margins)
    _check_dense_sums(margins)


def verify(statistics: Statistics, *, class_sums: bool = True) -> None:
    """Raise `InvariantError` naming the invariant that fails, and where.

    Parameters
    ----------
    class_sums : check that the grams of the classes add up, which those that were read by them do
    """
    verify_margins(statistics)
    _check_diagonal(statistics, statistics.gram.diagonal)
    statistics.gram.verify(statistics)
    _check_by_class(statistics, sums=class_sums)


def verify_triangle(
    margins: Margins, packed: NDArray[np.signedinteger[Any]], diagonal: NDArray[np.int64]
) -> None:
    """Check what holds of a whole gram, whose diagonal is that of these margins."""
    _check_products(margins, packed, diagonal)
    _check_semidefinite(margins, packed, diagonal)


def fail(invariant: str, found: str) -> None:
    """Raise the error of an invariant that does not hold."""
    raise InvariantError(f"{invariant}: {found}; these are not sums of any data set")


def _check_classes(s: Margins) -> None:
    if as_class_names(s.class_names) != s.class_names:
        fail("class names", "not in ascending order")
    if (s.class_counts <= 0).any():
        fail("class counts", "a class that is named has no samples")
    if sum(s.class_counts.tolist()) > s.layout.most_samples:
        fail("class counts", f"{s.class_counts.sum()} samples exceed {s.layout.most_samples}")


def _check_code_sums(s: Margins) -> None:
    cross = s.cross[: len(s.codes)]
    if ((cross < 0) | (cross > s.class_counts)).any():
        row = int(np.argmax(((cross < 0) | (cross > s.class_counts)).any(axis=1)))
        fail("cross lies between zero and the class counts", f"it does not at {_place(s, row)}")
    if not cross.any(axis=1).all():
        fail("a code that is named occurs", f"{_place(s, int(np.argmin(cross.any(axis=1))))}")
    for expert, (first, last) in enumerate(zip(s.offsets[:-1], s.offsets[1:], strict=True)):
        if not np.array_equal(cross[first:last].sum(axis=0), s.class_counts):
            fail("an expert's cross rows sum to the class counts", f"they do not in {expert}")


def _check_dense_sums(s: Margins) -> None:
    sums = s.cross[len(s.codes) :]
    limits = np.array(s.layout.dense_limits, np.int64).reshape(-1, 2)
    low, high = (np.outer(limit, s.class_counts) for limit in limits.T)
    if ((sums < low) | (sums > high)).any():
        row = len(s.codes) + int(np.argmax(((sums < low) | (sums > high)).any(axis=1)))
        fail("class sums fit the encoder's range", f"they do not at {_place(s, row)}")


def _check_diagonal(s: Margins, diagonal: NDArray[np.int64]) -> None:
    seen = len(s.codes)
    if (diagonal[:seen] != s.totals[:seen]).any():
        row = int(np.argmax(diagonal[:seen] != s.totals[:seen]))
        fail(
            "cross rows sum to the diagonal",
            f"{s.totals[row]} against {diagonal[row]} at {_place(s, row)}",
        )
    # In Python's integers, which do not wrap: (x - l)(x - h) <= 0 and |x| <= x^2, summed.
    limits = np.array(s.layout.dense_limits, object).reshape(-1, 2)
    totals, power = s.totals[seen:].astype(object), diagonal[seen:]
    most = limits.sum(axis=1) * totals - s.sample_count * limits[:, 0] * limits[:, 1]
    if ((power > most) | (power < abs(totals))).any():
        fail("dense squares", "beyond what the encoder's range and the totals allow")
    _check_labels(s, power)
    for first, last, longest in s.layout.dense_norms:
        if sum(power[first:last].tolist()) > s.sample_count * longest**2:
            fail("dense squares", f"more than samples clipped at {longest} have")
    if ((power ^ s.totals[seen:]) & 1).any():
        fail("dense squares", "a square and its number are both even or both odd")


def _check_labels(s: Margins, power: NDArray[np.int64]) -> None:
    """Squares are no smaller than what the classes' means alone have: ``sum_k m_ik^2 / n_k``."""
    sums = s.cross[len(s.codes) :]
    rough = (np.square(sums.astype(np.float64)) / s.class_counts).sum(axis=1)
    counts = s.class_counts.tolist()
    for column in np.flatnonzero(power < rough * (1 + CLEAR)).tolist():
        exact = sum(Fraction(m * m, n) for m, n in zip(sums[column].tolist(), counts, strict=True))
        if power[column] < exact:
            fail("dense squares", "smaller than the class sums allow")


def _check_products(
    s: Margins, packed: NDArray[np.signedinteger[Any]], diagonal: NDArray[np.int64]
) -> None:
    bounds, seen = Bounds.of(s), len(s.codes)
    if packed.dtype != triangle.entry_type(diagonal):
        fail("shape", f"gram is {packed.dtype}, too wide or too narrow for its squares")
    if seen:
        row, column = triangle.find_broken_pair(s.offsets, packed, diagonal)
        if row >= 0:
            fail(
                "a block's margins are its experts' diagonals, its own block is diagonal "
                "and nothing is negative",
                f"not so between {_place(s, row)} and {_place(s, column)}",
            )
    if not s.layout.dense_dim:
        return
    row, column = triangle.find_impossible(
        packed, seen, bounds.low, bounds.high, bounds.total, diagonal, bounds.samples
    )
    if row >= 0:
        fail(
            "a product of two columns fits their ranges, totals and squares",
            f"not so between {_place(s, row)} and {_place(s, column)}",
        )
    if seen:
        mixed = np.empty((seen, s.layout.dense_dim), np.int64)
        for row in range(seen):
            at = triangle.start(row, s.dim) + seen
            mixed[row] = packed[at : at + s.layout.dense_dim]
        sums = np.add.reduceat(mixed, s.offsets[:-1], axis=0)
        if (sums != s.totals[seen:]).any():
            expert = int(np.argmax((sums != s.totals[seen:]).any(axis=1)))
            fail("an expert's dense sums add up to the totals", f"they do not in {expert}")


def _check_semidefinite(
    s: Margins, packed: NDArray[np.signedinteger[Any]], diagonal: NDArray[np.int64]
) -> None:
    """By a Cholesky factorisation of ``C - M inverse(N) M'``, scaled to a unit diagonal of C."""
    size, entries = s.dim, triangle.packed_size(s.dim)
    require(
        16 * entries,
        purpose=f"checking the products of {size} columns",
        advice="use a machine with more memory, or an encoder with fewer columns",
    )
    singular = min(SINGULAR, 4 * (size + len(s.class_names)) ** 2 * 2.0**-53)
    power = diagonal.astype(np.float64)
    if triangle.gather_columns(packed, size, np.flatnonzero(power <= 0)).any():
        fail("a column without power has no products", "one has")
    scale = 1 / np.sqrt(np.where(power > 0, power, 1.0))
    means = s.cross * scale[:, None] / np.sqrt(s.class_counts.astype(np.float64))
    scaled = packed.astype(np.float64)
    for top in range(0, size, ROWS_AT_A_TIME):
        between = means[top : top + ROWS_AT_A_TIME] @ means[top:].T
        for row in range(top, min(top + ROWS_AT_A_TIME, size)):
            at = triangle.start(row, size) + row
            scaled[at : at + size - row] *= scale[row] * scale[row:]
            scaled[at : at + size - row] -= between[row - top, row - top :]
            scaled[at] += singular
    full, _ = lapack.dtpttf(size, scaled, uplo="L")
    del scaled
    _, info = lapack.dpftrf(size, full, uplo="L", overwrite_a=1)
    if info:
        where = _place(s, info - 1)
        fail("the products of columns and labels are semidefinite", f"not so at {where}")


def _check_by_class(s: Statistics, *, sums: bool) -> None:
    """Each class by itself, and whether its columns are shared out among the classes."""
    if len(s.by_class) != (len(s.class_names) if s.layout.class_layout else 0):
        fail("shape", f"the sums of {len(s.by_class)} classes; there are {len(s.class_names)}")
    for place, part in enumerate(s.by_class):
        expected = s.of_class(place)
        for name in ("fingerprint", "layout", "class_names", "class_counts", "cross"):
            if not np.array_equal(getattr(part, name), getattr(expected, name)):
                fail("a class has the sums that its columns have", f"other {name} in {place}")
        try:
            verify(part)
        except InvariantError as error:
            raise InvariantError(f"class {s.class_names[place]!r}: {error}") from error
    if sums and s.by_class:
        _check_class_sums(s)


def _check_class_sums(s: Statistics) -> None:
    from safle.statistics.growing import add_grams

    block = len(s.codes) + np.arange(*s.layout.by_class)
    total = triangle.to_square(add_grams(s.by_class), len(block))
    if not np.array_equal(s.gram.columns(block, block), total):
        fail("the products of the classes add up", "they do not")


def _place(s: Margins, row: int) -> str:
    if row >= len(s.codes):
        return f"dense column {row - len(s.codes)}"
    expert = int(np.searchsorted(s.layout.bases, s.codes[row], side="right")) - 1
    return f"expert {expert}, symbol {int(s.codes[row] - s.layout.bases[expert])}"
