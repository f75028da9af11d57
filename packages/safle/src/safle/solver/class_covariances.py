"""Means and covariances of classes in real units, entry by entry from the integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Layout
from safle.statistics.value import Sums

LEAST_SPREAD, SPREAD_PER_FEATURE = 0.05, 0.3
Matrix = NDArray[np.float64]


def squared_columns(layout: Layout) -> NDArray[np.int64]:
    """Dense columns that are counted by class, without constants, ascending, (d,)."""
    return np.setdiff1d(np.arange(*layout.by_class), layout.constants)


class ClassCovariances:
    """What the quadratic head knows of the classes: see `safle.solver.quadratic`.

    Attributes
    ----------
    rows : int64, (d,), rows of `squared_columns` in the statistics
    counts : float64, (class_count,)
    means : float64, (class_count, d)
    pooled : S, float64, (d, d)
    spread : r v
    """

    def __init__(self, statistics: Sums) -> None:
        layout, n = statistics.layout, statistics.sample_count
        columns = squared_columns(layout)
        d = len(columns)
        self.statistics = statistics
        self._places = columns - layout.by_class[0]
        self._real = 1 / np.array(layout.dense_scales, np.float64)[columns]
        self.rows = len(statistics.codes) + columns
        self.counts = statistics.class_counts.astype(np.float64)
        sums = statistics.cross[self.rows] * self._real[:, None]
        self.means: Matrix = (sums / self.counts).T
        whole = sum(statistics.class_gram(place) for place in range(len(self.counts)))
        gram = self._of_features(np.asarray(whole))
        self.pooled: Matrix = (gram - sums @ self.means) / max(n - len(self.counts), 1)
        mean = sums.sum(axis=1) / n
        variances = np.maximum(np.diagonal(gram) / n - mean**2, 0.0)
        r = LEAST_SPREAD + SPREAD_PER_FEATURE * d / n
        # Features that never vary say nothing, whatever they are divided by.
        self.spread = r * (float(variances.mean()) or 1.0)

    def _of_features(self, gram: NDArray[np.int64]) -> Matrix:
        real = gram[np.ix_(self._places, self._places)] * self._real
        return real * self._real[:, None]

    def own(self, place: int) -> Matrix:
        """S_c, (d, d)."""
        mean = self.means[place]
        own = self._of_features(self.statistics.class_gram(place)) / self.counts[place]
        own -= mean[:, None] * mean
        return own
