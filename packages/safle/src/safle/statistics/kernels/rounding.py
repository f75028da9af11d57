"""Tiles of real numbers that should be integers, checked and added to a packed triangle.

``_native/check.c`` and ``_native/triangle.c``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

if TYPE_CHECKING:
    from safle.statistics.invariants import Bounds

_round_tile = Kernel(
    "round_tile",
    "tile f4|f8[height, width]!",
    "width",
    "top",
    "left",
    "low i8[dim]",
    "high i8[dim]",
    "total i8[dim]",
    "expert i4[dim]",
    "n",
    "tolerance",
    "faults i8[height]!",
    pieces="height",
)
_add_integers = Kernel(
    "add_integers",
    "gram i4|i8[packed(dim)]!",
    "dim",
    "positions i8[size] <dim",
    "top",
    "left",
    "tile f4|f8[height, width]",
    "width",
    "sign",
    "together",
    pieces="height",
)
_gather_columns = Kernel(
    "gather_columns",
    "gram i4|i8[packed(dim)]",
    "dim",
    "chosen i8[count] <dim",
    "count",
    "columns i8[dim, count]!",
    pieces="dim",
)


def round_tile(
    tile: NDArray[np.floating[Any]],
    top: int,
    left: int,
    bounds: Bounds,
    tolerance: float,
) -> bool:
    """Round rows ``top`` and on, columns ``left`` and on, of a gram in place.

    Returns whether all of it are integers but for ``tolerance``, possible as products of two
    columns (see `find_impossible`), and zero for two different codes of one expert. Only what lies
    on or above the diagonal counts.
    """
    _require_within(tile, top, left, len(bounds.low))
    if bounds.samples >= 1 << 29:
        raise ValueError(f"{bounds.samples} samples: a bound on their products may not fit 64 bits")
    faults = np.zeros(len(tile), np.int64)
    _round_tile(
        tile,
        top,
        left,
        bounds.low,
        bounds.high,
        bounds.total,
        bounds.expert,
        bounds.samples,
        float(tolerance),
        faults,
        nanoseconds=3 * tile.size,
    )
    return not faults.any()


def add_integers(
    packed: NDArray[np.signedinteger[Any]],
    dim: int,
    positions: NDArray[np.int64],
    top: int,
    left: int,
    tile: NDArray[np.floating[Any]],
    sign: int,
) -> None:
    """``packed[positions_i, positions_j] += sign * tile[i - top, j - left]`` for i <= j."""
    _require_within(tile, top, left, len(positions))
    last = left + tile.shape[1] - 1
    together = positions[last] - positions[left] == last - left
    _add_integers(
        packed, dim, positions, top, left, tile, sign, int(together), nanoseconds=tile.size
    )


def _require_within(tile: NDArray[Any], top: int, left: int, dim: int) -> None:
    height, width = tile.shape
    if not (top >= 0 and left >= 0 and width > 0 and max(top + height, left + width) <= dim):
        raise IndexError(f"a tile of {tile.shape} at {top}, {left} is not within {dim} columns")


def gather_columns(
    packed: NDArray[np.signedinteger[Any]], dim: int, chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Columns of the symmetric matrix, int64, (dim, chosen)."""
    columns = np.empty((dim, len(chosen)), np.int64)
    _gather_columns(packed, chosen, columns, nanoseconds=4 * columns.size)
    return columns
