"""Tiles of real numbers that should be integers, checked and added to a packed triangle."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start


@njit(cache=True, nogil=True, inline="always")
def product_bounds(low, high, total, other_low, other_high, other_total, samples):  # type: ignore[no-untyped-def]
    """Least and largest ``sum x y`` of two columns within their ranges and with these totals.

    ``(x - l)(y - m) >= 0`` and its three kin, summed over the samples. Exact in float64 below
    2**21 samples: no term reaches 2**53.
    """
    at_low, at_high = total - samples * low, total - samples * high
    least = max(low * other_total + other_low * at_low, high * other_total + other_high * at_high)
    most = min(high * other_total + other_low * at_high, low * other_total + other_high * at_low)
    return least, most


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
    tolerance: float,
) -> bool:
    """Round rows ``top`` and on, columns ``left`` and on, of a gram in place.

    Returns whether all of it are integers but for ``tolerance``, within `product_bounds`, and
    zero for two different codes of one expert. Only what lies on or above the diagonal counts.
    """
    faults = np.zeros(tile.shape[0], np.int64)
    for index in prange(tile.shape[0]):
        i = top + np.int64(index)
        first = i - left if i > left else 0
        row, last = tile[index, first:], left + tile.shape[1]
        lows, highs = low[left + first : last], high[left + first : last]
        totals, experts = total[left + first : last], expert[left + first : last]
        own_low, own_high, own_total, own_expert = low[i], high[i], total[i], expert[i]
        itself, found = i - left - first, np.int64(0)
        # Faults are counted, with no branch: that is what the compiler can vectorise.
        for k in range(len(row)):
            value = np.float64(row[k])
            rounded = np.rint(value)
            least, most = product_bounds(
                own_low, own_high, own_total, lows[k], highs[k], totals[k], samples
            )
            # Written so that what is not a number is refused too.
            good = (abs(value - rounded) <= tolerance) & (least <= rounded) & (rounded <= most)
            apart = (experts[k] == own_expert) & (k != itself) & (rounded != 0)
            found += np.int64(~good | apart)
            row[k] = rounded
        faults[index] = found
    return faults.sum() == 0


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


@njit(cache=True, nogil=True, parallel=True)
def take_columns(columns: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """``columns[:, chosen]`` as float64, in one pass: NumPy's two take five times as long."""
    taken = np.empty((len(columns), len(chosen)))
    for index in prange(len(columns)):
        source, target = columns[np.int64(index)], taken[np.int64(index)]
        for k in range(len(chosen)):
            target[k] = source[chosen[k]]
    return taken
