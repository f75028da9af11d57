"""Tiles of real numbers that should be integers, checked and added to a packed triangle."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start

IMPOSSIBLE = 2.0
"""The error of an entry that no samples could have; that of a true rounding is at most 1/2."""
SLACK = 1e-9
"""Relative rounding of the bounds themselves: integers beyond 2**53 are not exact here."""


@njit(cache=True, nogil=True, inline="always")
def product_bounds(i, j, low, high, total, samples):  # type: ignore[no-untyped-def]
    """Least and largest ``sum x_i x_j`` of columns within their ranges and with these totals.

    ``(x - l)(y - m) >= 0`` and its three kin, summed over the samples.
    """
    least = max(
        low[i] * total[j] + low[j] * total[i] - samples * low[i] * low[j],
        high[i] * total[j] + high[j] * total[i] - samples * high[i] * high[j],
    )
    most = min(
        high[i] * total[j] + low[j] * total[i] - samples * high[i] * low[j],
        low[i] * total[j] + high[j] * total[i] - samples * low[i] * high[j],
    )
    slack = 0.5 + SLACK * (abs(least) + abs(most))
    return least - slack, most + slack


@njit(cache=True, nogil=True, parallel=True)
def round_tile(
    tile: NDArray[np.floating],
    top: int,
    left: int,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    total: NDArray[np.float64],
    expert: NDArray[np.int32],
    samples: float,
) -> float:
    """Round rows ``top`` and on, columns ``left`` and on, of a gram in place; the worst error.

    Only what lies on or above the diagonal counts. An entry outside `product_bounds`, or of
    two different codes of one expert and not zero, has the error `IMPOSSIBLE`.
    """
    worst = np.zeros(tile.shape[0])
    for index in prange(tile.shape[0]):
        i = top + np.int64(index)
        error = 0.0
        for k in range(max(0, i - left), tile.shape[1]):
            j = left + k
            value = np.float64(tile[index, k])
            rounded = np.rint(value)
            least, most = product_bounds(i, j, low, high, total, samples)
            off = abs(value - rounded)
            apart = expert[i] == expert[j] and i != j and rounded != 0
            # Written so that what is not a number is refused too.
            if apart or not (least <= rounded <= most):
                off = IMPOSSIBLE
            error = max(error, off)
            tile[index, k] = rounded
        worst[index] = error
    return worst.max() if len(worst) else 0.0


@njit(cache=True, nogil=True, parallel=True)
def add_integers(
    packed: NDArray[np.integer],
    dim: int,
    positions: NDArray[np.int64],
    top: int,
    left: int,
    tile: NDArray[np.floating],
    sign: int,
) -> None:
    """``packed[positions_i, positions_j] += sign * tile[i - top, j - left]`` for i <= j."""
    last = left + tile.shape[1] - 1
    together = positions[last] - positions[left] == last - left
    for index in prange(tile.shape[0]):
        i = top + np.int64(index)
        first = max(0, i - left)
        base = start(positions[i], dim)
        if together:
            values = tile[index, first:]
            at = base + positions[left] + first
            target = packed[at : at + len(values)]
            for k in range(len(values)):
                target[k] += sign * np.int64(values[k])
        else:
            for k in range(first, tile.shape[1]):
                packed[base + positions[left + k]] += sign * np.int64(tile[index, k])


@njit(cache=True, nogil=True, parallel=True)
def find_impossible(
    packed: NDArray[np.integer],
    first: int,
    dim: int,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    total: NDArray[np.float64],
    samples: float,
) -> NDArray[np.int64]:
    """First (row, column) with column >= ``first`` outside `product_bounds`; else (-1, -1)."""
    found = np.full(dim, -1, np.int64)
    for index in prange(dim):
        i = np.int64(index)
        for j in range(max(i, first), dim):
            least, most = product_bounds(i, j, low, high, total, samples)
            if not (least <= packed[start(i, dim) + j] <= most):
                found[i] = j
                break
    for row in range(dim):
        if found[row] >= 0:
            return np.array([row, found[row]])
    return np.full(2, -1, np.int64)


@njit(cache=True, nogil=True, parallel=True)
def gather_columns(
    packed: NDArray[np.integer], dim: int, chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Columns of the symmetric matrix, int64, (dim, chosen)."""
    columns = np.empty((dim, len(chosen)), np.int64)
    for index in prange(dim):
        row = np.int64(index)
        for k in range(len(chosen)):
            least, most = min(row, chosen[k]), max(row, chosen[k])
            columns[row, k] = packed[start(least, dim) + most]
    return columns
