"""Scores of dense columns: ``scores += dense W``, exactly.

Columns of one scale and one range stand side by side; each such run is summed in integers
and multiplied by a power of two once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Layout
from safle.model.kernels import dense as kernels


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
            _Run(int(run[0]), kernels.split(steps[run]), int(most[run[0]]), step / scales[run[0]])
            for run in np.split(np.arange(len(scales)), breaks)
            if len(run)
        ]

    def add(self, scores: NDArray[np.float64], dense: NDArray[np.int16]) -> None:
        """Add to ``scores``, (samples, class_count), in place."""
        for run in self._runs:
            kernels.add_scores(scores, dense, run.left, run.weights, most=run.most, step=run.step)
