"""Sums of products of dense columns, exactly: ``gram[i, j] += sum_s x_si x_sj``.

Integers multiplied as integers, in bytes where the codes have few bits, else in 16 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.statistics.kernels import products as kernels

SAMPLES = 4_096
"""At a time: their copies as panels are all the memory this takes, beside some tiles."""
FLOAT32_EXACT = 1 << 24
INT16_MOST, INT32_MOST = (1 << 15) - 1, (1 << 31) - 1
MOST_BYTE = 31
"""Largest code that is multiplied as a byte: 17 pairs of products fit 16 bits."""


def exact_product(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.int64]:
    """``left.T @ right`` of integers, int64, (left columns, right columns)."""
    largest = float(np.abs(left).max(initial=0)) * float(np.abs(right).max(initial=0))
    if largest * len(left) < FLOAT32_EXACT:
        return (left.T @ right).astype(np.int64)
    return (left.T.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)


def add_products(gram: NDArray[np.int64], dense: NDArray[np.int16]) -> None:
    """Add the products of dense columns to their part of a gram.

    Parameters
    ----------
    gram : int64, packed triangle of the dense columns alone, changed in place
    dense : int16, (samples, dense_dim)

    Examples
    --------
    >>> gram = np.zeros(3, np.int64)
    >>> add_products(gram, np.array([[1, 2], [3, 4]], np.int16))
    >>> gram
    array([10, 14, 20])
    """
    for first in range(0, len(dense), SAMPLES):
        _add_integers(gram, dense[first : first + SAMPLES])


def _add_integers(gram: NDArray[np.int64], dense: NDArray[np.int16]) -> None:
    ranges = kernels.tile_ranges(dense)
    tops, lefts = np.triu_indices(len(ranges))
    largest = np.abs(ranges).max(axis=1)
    # Of two neighbours, the most that their products can add up to.
    pair = 2 * np.maximum(largest[tops] * largest[lefts], 1)
    narrow = (ranges[:, 0] == 0) & (ranges[:, 1] <= MOST_BYTE)
    bytes_only = narrow[tops] & narrow[lefts]
    for wide, chosen in ((False, bytes_only), (True, ~bytes_only)):
        if not chosen.any():
            continue
        panels = kernels.pack(dense, kernels.HALVES_PER_WORD if wide else kernels.BYTES_PER_WORD)
        depth = (INT32_MOST if wide else INT16_MOST) // pair
        pairs = np.stack([tops, lefts, depth], axis=1)[chosen]
        kernels.add_tiles(panels, wide, pairs, gram, dense.shape[1])
