"""Scores of dense columns: integers times weights on a grid: ``_native/predict.c``.

A weight of `MOST_BITS` bits is two int16, ``high * 2^PART_BITS + low``, so that products are exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

LANES = 16
"""Columns in a vector."""
PART_BITS = 12
ROWS = 4
"""Halves of weights that are multiplied in one pass over the columns."""
MOST_DEPTH = 128
"""Vectors of a pass: the weights stay in L1 for all samples of a piece."""
INT32_MOST = (1 << 31) - 1
_add_scores = Kernel(
    "add_scores",
    "dense i2[samples, width]",
    "samples",
    "width",
    "left",
    "weights i2[rows, columns]",
    "rows",
    "columns",
    "depth",
    "step",
    "scores f8[samples, classes]!",
    "classes",
    "sums i8[33 * rows]~",
    pieces="(samples + 31) // 32",
)


def split(steps: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights as halves, int16, (2 * classes, rounded up, columns): low, high, low, ...

    Parameters
    ----------
    steps : int64, (columns, classes), below ``2**(15 + PART_BITS)`` in magnitude
    """
    columns, classes = steps.shape
    rows = 2 * classes
    halves = np.zeros((rows + -rows % ROWS, columns), np.int16)
    halves[0:rows:2] = (steps & ((1 << PART_BITS) - 1)).T
    halves[1:rows:2] = (steps >> PART_BITS).T
    return halves


def add_scores(
    scores: NDArray[np.float64],
    dense: NDArray[np.int16],
    left: int,
    weights: NDArray[np.int16],
    *,
    most: int,
    step: float,
) -> None:
    """``scores += step * dense[:, left : left + columns] @ weights``, exactly.

    Parameters
    ----------
    scores : float64, (samples, classes), changed in place
    dense : int16, (samples, dense_dim), C-contiguous
    weights : from `split`, of the columns from ``left`` on
    most : largest magnitude of these columns; step : what weights count, a power of two
    """
    rows, columns = weights.shape
    if left < 0 or left + columns > dense.shape[1] or rows % ROWS or 2 * scores.shape[1] > rows:
        raise ValueError("the weights are not of these columns and classes")
    depth = min(MOST_DEPTH, INT32_MOST // (2 * most << PART_BITS))
    # About a third of a nanosecond for each multiplication of sixteen columns.
    work = len(dense) * weights.size / LANES / 3
    _add_scores(dense, left, weights, depth, float(step), scores, nanoseconds=work)
