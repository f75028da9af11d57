"""Invariants that any data set's statistics obey; whatever comes from outside must.

With n samples, expert blocks a, b and dense columns x:

- every expert's diagonal block is diagonal and sums to n;
- a block of two experts is non-negative and its margins are their diagonals;
- rows of cross sum to the diagonal, an expert's rows to the class counts;
- no entry exceeds the count it is a part of (without that, sums could wrap around);
- dense sums: ``|sum x y|^2 <= sum x^2 sum y^2``, the rows of any expert sum to the same
  total, which the class columns and the constant column repeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import DENSE_LIMIT
from safle.encoders.features import as_class_names
from safle.errors import InvariantError
from safle.statistics.kernels import triangle
from safle.statistics.kernels.invariants import find_broken_pair

if TYPE_CHECKING:
    from safle.statistics.value import Statistics


def verify(statistics: Statistics, *, pairs: bool = True) -> None:
    """Raise `InvariantError` naming the invariant that fails, and where.

    Parameters
    ----------
    pairs : check the blocks of two experts too, the only check that reads the whole gram
    """
    _check_shapes(statistics)
    _check_classes(statistics)
    if statistics.layout.experts:
        _check_codes(statistics)
        if pairs:
            _check_pairs(statistics)
    if statistics.layout.dense_dim:
        _check_dense(statistics)


def _fail(invariant: str, found: str) -> None:
    raise InvariantError(f"{invariant}: {found}; these are not counts of any data set")


def _check_shapes(s: Statistics) -> None:
    expected = {
        "gram": (triangle.packed_size(s.dim),),
        "cross": (s.dim, len(s.class_names)),
        "class_counts": (len(s.class_names),),
    }
    for name, shape in expected.items():
        if getattr(s, name).shape != shape:
            _fail("shape", f"{name} has shape {getattr(s, name).shape}, expected {shape}")
    if s.gram.dtype != s.layout.gram_type:
        _fail("type", f"gram is {s.gram.dtype}, expected {s.layout.gram_type.__name__}")
    codes = s.codes
    if (np.diff(codes) <= 0).any() or (
        len(codes) and not 0 <= codes[0] <= codes[-1] < s.layout.code_count
    ):
        _fail("codes", f"not ascending within 0..{s.layout.code_count - 1}")


def _check_classes(s: Statistics) -> None:
    if as_class_names(s.class_names) != s.class_names:
        _fail("class names", "not in ascending order")
    if (s.class_counts <= 0).any():
        _fail("class counts", "a class that is named has no samples")
    if sum(s.class_counts.tolist()) > s.layout.most_samples:
        _fail("class counts", f"{s.class_counts.sum()} samples exceed {s.layout.most_samples}")


def _check_codes(s: Statistics) -> None:
    seen = len(s.codes)
    diagonal, cross = s.diagonal[:seen], s.cross[:seen]
    if (diagonal <= 0).any():
        row = int(np.argmax(diagonal <= 0))
        _fail("diagonal is positive", f"{diagonal[row]} at {_place(s, row)}")
    if (cross < 0).any():
        row = int(np.argmax((cross < 0).any(axis=1)))
        _fail("cross is non-negative", f"{cross[row].min()} at {_place(s, row)}")
    if (cross > s.class_counts).any():
        row = int(np.argmax((cross > s.class_counts).any(axis=1)))
        _fail("cross is at most the class counts", f"{cross[row].max()} at {_place(s, row)}")
    rows = cross.sum(axis=1)
    if (rows != diagonal).any():
        row = int(np.argmax(rows != diagonal))
        _fail(
            "cross rows sum to the diagonal",
            f"{rows[row]} against {diagonal[row]} at {_place(s, row)}",
        )
    for expert, (first, last) in enumerate(zip(s.offsets[:-1], s.offsets[1:], strict=True)):
        if not np.array_equal(cross[first:last].sum(axis=0), s.class_counts):
            _fail("an expert's cross rows sum to the class counts", f"they do not in {expert}")


def _check_pairs(s: Statistics) -> None:
    row, column = find_broken_pair(s.offsets, s.dim, s.gram, s.diagonal).tolist()
    if row >= 0:
        _fail(
            "a block's margins are its experts' diagonals, its own block is diagonal "
            "and nothing is negative",
            f"not so between {_place(s, row)} and {_place(s, column)}",
        )


def _check_dense(s: Statistics) -> None:
    first, n = len(s.codes), s.sample_count
    width = s.layout.dense_dim
    products = s.gram[-triangle.packed_size(width) :]
    power = triangle.diagonal(products, width)
    if (power < 0).any() or (power > n * DENSE_LIMIT**2).any():
        _fail("dense squares", "outside 0..n * 32767^2")
    # Integers beyond 2**53: a relative slack of 1e-9 covers the float rounding.
    if triangle.largest_over_bound(products, np.sqrt(power.astype(np.float64))) > 1 + 1e-9:
        _fail("Cauchy-Schwarz on the dense block", "a product exceeds its squares")
    if _outside(s.cross[first:], DENSE_LIMIT * s.class_counts):
        _fail("class sums of dense columns", "larger than the class's count allows")
    totals = s.cross[first:].sum(axis=1)
    for column in s.layout.constants:
        _check_constant(s, _dense_row(products, width, column), totals, column)
    if s.layout.experts:
        _check_mixed(s, totals)


def _check_constant(
    s: Statistics, products: NDArray[np.int64], totals: NDArray[np.int64], column: int
) -> None:
    scale = s.layout.dense_scales[column]
    if not np.array_equal(products, scale * totals):
        _fail("the constant column repeats the dense totals", f"not in dense column {column}")
    if not np.array_equal(s.cross[len(s.codes) + column], scale * s.class_counts):
        _fail("the constant column counts the classes", f"not in dense column {column}")


def _dense_row(packed: NDArray[Any], dim: int, row: int) -> NDArray[np.int64]:
    """One row of a packed symmetric matrix, (dim,)."""
    columns = np.arange(dim)
    low, high = np.minimum(columns, row), np.maximum(columns, row)
    return packed[triangle.start(low, dim) + high].astype(np.int64)


def _check_mixed(s: Statistics, totals: NDArray[np.int64]) -> None:
    seen = len(s.codes)
    mixed = np.empty((seen, s.layout.dense_dim), np.int64)
    for row in range(seen):
        at = triangle.start(row, s.dim) + seen
        mixed[row] = s.gram[at : at + s.layout.dense_dim]
    if _outside(mixed, DENSE_LIMIT * s.diagonal[:seen, None]):
        _fail("code sums of dense columns", "larger than the code's count allows")
    for expert, (first, last) in enumerate(zip(s.offsets[:-1], s.offsets[1:], strict=True)):
        if not np.array_equal(mixed[first:last].sum(axis=0), totals):
            _fail("an expert's dense sums add up to the totals", f"they do not in {expert}")
    for column in s.layout.constants:
        scale = s.layout.dense_scales[column]
        if not np.array_equal(mixed[:, column], scale * s.diagonal[:seen]):
            _fail("the constant column counts the codes", f"not in dense column {column}")


def _outside(values: NDArray[np.int64], bound: NDArray[Any]) -> bool:
    """Whether any value is beyond ±bound; abs would miss the least int64."""
    return bool(((values > bound) | (values < -bound)).any())


def _place(s: Statistics, row: int) -> str:
    if row >= len(s.codes):
        return f"dense column {row - len(s.codes)}"
    expert = int(np.searchsorted(s.layout.bases, s.codes[row], side="right")) - 1
    return f"expert {expert}, symbol {int(s.codes[row] - s.layout.bases[expert])}"
