"""Checks of the algebra that counts obey, over a packed gram.

Each returns (row, column) of the first violation it meets, or (-1, -1).
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start


@njit(cache=True, nogil=True)
def _check_expert(expert, offsets, dim, gram, diagonal):  # type: ignore[no-untyped-def]
    """Rows of one expert: diagonal own block, margins with every later expert."""
    experts = offsets.shape[0] - 1
    first, last = offsets[expert], offsets[expert + 1]
    column_sums = np.zeros(offsets[experts], np.int64)
    for row in range(first, last):
        origin = start(row, dim)
        for column in range(row + 1, last):
            if gram[origin + column] != 0:
                return row, column
        for other in range(expert + 1, experts):
            margin = np.int64(0)
            least = np.int64(0)
            largest = np.int64(0)
            for column in range(offsets[other], offsets[other + 1]):
                entry = np.int64(gram[origin + column])
                least = min(least, entry)
                largest = max(largest, entry)
                margin += entry
                column_sums[column] += entry
            if least < 0 or largest > diagonal[row] or margin != diagonal[row]:
                return row, offsets[other]
    for column in range(last, offsets[experts]):
        if column_sums[column] != diagonal[column]:
            return first, column
    return np.int64(-1), np.int64(-1)


@njit(cache=True, nogil=True, parallel=True)
def find_broken_pair(
    offsets: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.integer],
    diagonal: NDArray[np.int64],
) -> NDArray[np.int64]:
    """First (row, column) where a block of two experts does not add up; int64, (2,).

    Entries lie between 0 and the diagonal, so that no margin can wrap around to it.
    """
    experts = offsets.shape[0] - 1
    found = np.full((experts, 2), -1, np.int64)
    for index in prange((experts + 1) // 2):
        for side in range(2):
            expert = np.int64(index) if side == 0 else experts - 1 - np.int64(index)
            row, column = _check_expert(expert, offsets, dim, gram, diagonal)
            found[expert, 0] = row
            found[expert, 1] = column
    for expert in range(experts):
        if found[expert, 0] >= 0:
            return found[expert]
    return np.full(2, -1, np.int64)
