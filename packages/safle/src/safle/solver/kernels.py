"""Kernels of the solver, in ``_native/solve.c``: the reduced gram, and row sums.

Tiles of the reduced gram ``Q' S^-1 C S^-1 Q`` come straight from the packed integers: see
`safle.solver.reduction`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

_fill_tile = Kernel(
    "fill_tile",
    "gram i4|i8[packed(dim)]",
    "dim",
    "totals f8[dim]",
    "n",
    "rows i8[reduced] <dim",
    "experts i8[reduced] <expert_count + 1",
    "leads i8[expert_count] <dim",
    "kappas f8[expert_count]",
    "expert_count",
    "scales f8[dim]",
    "top",
    "left",
    "tile f4|f8[width, height]!",
    "height",
    "terms f8[expert_count + 1]~",
    pieces="width",
)
_absolute_row_sums = Kernel("absolute_row_sums", "gram i4|i8[packed(dim)]", "dim", "sums f8[dim]!")


def fill_tile(
    gram: NDArray[np.signedinteger[Any]],
    totals: NDArray[np.float64],
    n: float,
    rows: NDArray[np.int64],
    experts: NDArray[np.int64],
    leads: NDArray[np.int64],
    kappas: NDArray[np.float64],
    scales: NDArray[np.float64],
    top: int,
    left: int,
    tile: NDArray[np.floating[Any]],
) -> None:
    """``tile[r, c] = T[top + r, left + c]`` where top + r >= left + c; T is the reduced gram.

    Parameters
    ----------
    totals : float64, (dim,), sum over samples of each real column
    rows : int64, (reduced,), gram row of each reduced coordinate, ascending
    experts : int64, (reduced,), its expert, or the number of experts for a dense column
    leads, kappas : (experts,), first gram row of each expert and its kappa
    scales : float64, (dim,), real value of one code unit
    tile : float32 or float64, (height, width), Fortran order, written
    """
    height, width = tile.shape
    if top < 0 or left < 0 or max(top + height, left + width) > len(rows):
        raise IndexError("the tile is not within the reduced gram")
    _fill_tile(
        gram, totals, float(n), rows, experts, leads, kappas, scales, top, left, tile.T,
        nanoseconds=tile.size,
    )  # fmt: skip


def absolute_row_sums(gram: NDArray[np.signedinteger[Any]], dim: int) -> NDArray[np.float64]:
    """Sums of the absolute entries of every row of the packed gram, float64, (dim,)."""
    sums = np.empty(dim)
    _absolute_row_sums(gram, sums)
    return sums
