"""Scores of dense columns: ``scores += dense W``, exactly: ``_native/predict.c``.

Columns of one scale and one range stand side by side; each such run is summed in integers
and multiplied by a power of two once. A weight of `MOST_BITS` bits is two int16,
``high * 2^PART_BITS + low``, so that products are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.encoders.codes import Layout

_LANES = 16
"""Columns in a vector."""
PART_BITS = 12
_ROWS = 4
"""Halves of weights that are multiplied in one pass over the columns."""
_INT32_MOST = (1 << 31) - 1
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


@dataclass(frozen=True)
class _Run:
    """Neighbouring columns: the first, their weights, their largest magnitude, a weight's worth."""

    left: int
    weights: NDArray[np.int16]
    most: int
    step: float


class DenseScores:
    """What the dense columns of ``layout`` add to scores.

    Parameters
    ----------
    weights : float32, (dense_dim, class_count), multiples of ``step``
    step : a power of two, at least ``2**-24`` of the largest weight
    """

    def __init__(self, layout: Layout, weights: NDArray[np.float32], step: float) -> None:
        scales = np.array(layout.dense_scales, np.int64)
        self.per_unit = weights.astype(np.float64) / scales[:, None]
        """Weights per code unit, float64, (dense_dim, class_count)."""
        most = np.abs(np.array(layout.dense_limits, np.int64).reshape(-1, 2)).max(axis=1)
        steps = (weights.astype(np.float64) / step).astype(np.int64)
        breaks = np.flatnonzero((np.diff(scales) != 0) | (np.diff(most) != 0)) + 1
        self._runs = [
            _Run(int(run[0]), split(steps[run]), int(most[run[0]]), step / scales[run[0]])
            for run in np.split(np.arange(len(scales)), breaks)
            if steps[run].any()
        ]

    def add(self, scores: NDArray[np.float64], dense: NDArray[np.int16]) -> None:
        """Add to ``scores``, (samples, class_count), in place."""
        for run in self._runs:
            add_scores(scores, dense, run.left, run.weights, most=run.most, step=run.step)


def split(steps: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights as halves, int16, (2 * classes, rounded up, columns): low, high, low, ...

    Parameters
    ----------
    steps : int64, (columns, classes), below ``2**(15 + PART_BITS)`` in magnitude
    """
    columns, classes = steps.shape
    rows = 2 * classes
    halves = np.zeros((rows + -rows % _ROWS, columns), np.int16)
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
    if left < 0 or left + columns > dense.shape[1] or rows % _ROWS or 2 * scores.shape[1] > rows:
        raise ValueError("the weights are not of these columns and classes")
    depth = _INT32_MOST // (2 * most << PART_BITS)
    # About a third of a nanosecond for each multiplication of sixteen columns.
    work = len(dense) * weights.size / _LANES / 3
    _add_scores(dense, left, weights, depth, float(step), scores, nanoseconds=work)
