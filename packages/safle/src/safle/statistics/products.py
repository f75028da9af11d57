"""Sums of products of dense columns, exactly: ``gram[i, j] += sum_s x_si x_sj``.

Integers multiplied as integers, in bytes where the codes have few bits, else in 16 bits.
Where those instructions are missing, as floats: a product of integers is exact while no sum
can reach the end of the mantissa, whatever the order: float32 for few-bit codes, float64
for fixed-point features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.compiling import vector_kernels
from safle.statistics.kernels import products as kernels
from safle.statistics.kernels.triangle import add_tile

FLOAT_TILE = 1024
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
    add_gram = _add_integers if vector_kernels() else _add_floats
    for first in range(0, len(dense), SAMPLES):
        add_gram(gram, dense[first : first + SAMPLES])


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


def _add_floats(gram: NDArray[np.int64], dense: NDArray[np.int16]) -> None:
    samples, dim = dense.shape
    narrow = dense.astype(np.float32)
    starts = range(0, dim, FLOAT_TILE)
    largest = [int(np.abs(narrow[:, at : at + FLOAT_TILE]).max(initial=0)) for at in starts]
    for row, top in enumerate(starts):
        for column, left in enumerate(starts[row:], row):
            pair: tuple[NDArray[Any], NDArray[Any]]
            pair = narrow[:, top : top + FLOAT_TILE], narrow[:, left : left + FLOAT_TILE]
            if largest[row] * largest[column] * samples >= FLOAT32_EXACT:
                pair = pair[0].astype(np.float64), pair[1].astype(np.float64)
            add_tile(gram, dim, top, left, pair[0].T @ pair[1])
