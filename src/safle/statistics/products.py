"""Sums of products of dense columns, in blocks and exactly.

``gram[i, j] += sum_s x_si x_sj``. A float product of integers is exact while no sum can
reach the end of the mantissa, whatever the order: float32 (twice as fast) for few-bit
codes, float64 for fixed-point features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import add_tile

TILE = 1024
SAMPLES = 4_096
"""At a time: their float copy is all the memory this takes, beside one tile."""
FLOAT32_EXACT = 1 << 24


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
    """
    for first in range(0, len(dense), SAMPLES):
        _add_gram(gram, dense[first : first + SAMPLES])


def _add_gram(gram: NDArray[np.int64], dense: NDArray[np.int16]) -> None:
    samples, dim = dense.shape
    narrow = dense.astype(np.float32)
    starts = range(0, dim, TILE)
    largest = [int(np.abs(narrow[:, at : at + TILE]).max(initial=0)) for at in starts]
    for row, top in enumerate(starts):
        for column, left in enumerate(starts[row:], row):
            pair: tuple[NDArray[Any], NDArray[Any]]
            pair = narrow[:, top : top + TILE], narrow[:, left : left + TILE]
            if largest[row] * largest[column] * samples >= FLOAT32_EXACT:
                pair = pair[0].astype(np.float64), pair[1].astype(np.float64)
            add_tile(gram, dim, top, left, pair[0].T @ pair[1])
