"""The quadratic head: a covariance for each class, regularised (Friedman's RDA, 1989).

With d features, n samples in C classes, n_c of them in class c, and v the mean variance of
a feature,

    ``Sigma_c = (1 - a) S_c + (1 - (1 - a)(1 - 1/n_c)) S + r v I``,
    ``S_c = scatter_c / n_c``, ``S = sum_c scatter_c / (n - C)``, ``r = 0.05 + 0.3 d / n``.

So a class of many samples has ``(1 - a) S_c + a S``, and one of a single sample has S: all
are of one size, however few samples a class has. The score of class c is its log posterior,

    ``-|V_c' (x - m_c)|^2 / 2 + log det V_c + log(n_c / n)``, ``V_c V_c' = inverse(Sigma_c)``,

with V_c upper triangular, all divided by ``T = 2.5 (1 + 0.06 d C / n)``: features are not
normal, and posteriors as if they were would be too sure. How a, r and T were found is told
in docs/trials.md. Integers become float64 entry by entry, every sum has a fixed order and no
library's, and V_c is rounded to 16 bits: equal statistics give equal heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle._internal.memory import require
from safle.encoders.codes import Layout
from safle.errors import InvalidInput, SolveError
from safle.solver.kernels import multiply_in_order, whiten_in_order
from safle.solver.logarithms import log_product, log_shares
from safle.statistics import Statistics

POOLED = 0.9
"""a: 0.85 to 0.95 did alike on every data set tried, from 100 samples per class on."""
LEAST_SPREAD, SPREAD_PER_FEATURE = 0.05, 0.3
COLUMNS_PER_CLASS = 400
"""With so many, the quadratic head has half a say in the averaged one."""
TEMPERATURE, TEMPERATURE_PER_FEATURE = 2.5, 0.06
FACTOR_BITS = 15
OFFSET_BITS = 12
"""Of whitened values, behind the binary point."""
TOGETHER = 8
"""Classes that are factored at a time."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quadratic:
    """What a model needs of the quadratic head, in integers.

    A class adds ``-worth |y|^2 / 2`` to its score, with ``y = 2**exponent V' x - offsets /
    2**OFFSET_BITS`` and x the real values of `squared_columns`.

    Attributes
    ----------
    factors : int16, (class_count, d (d + 1) / 2), rows of upper triangular V
    exponent : of the power of two that factors are multiples of
    offsets : int32, (class_count, d)
    worth : 1, or less where other heads have a say
    """

    factors: NDArray[np.int16]
    exponent: int
    offsets: NDArray[np.int32]
    worth: float = 1.0


def squared_columns(layout: Layout) -> NDArray[np.int64]:
    """Dense columns that are counted by class, without constants, ascending, (d,)."""
    return np.setdiff1d(np.arange(*layout.by_class), layout.constants)


def can_square(statistics: Statistics) -> bool:
    """Whether the statistics have what the quadratic head needs."""
    return len(squared_columns(statistics.layout)) > 0


def share(statistics: Statistics) -> float:
    """Of the quadratic head in the averaged one, 0 to 1.

    The more columns there are for a class, the better linear heads tell classes apart.
    """
    at_half = COLUMNS_PER_CLASS * len(statistics.class_names)
    return at_half / (at_half + statistics.dim)


def coolness(statistics: Statistics) -> float:
    """1 / T."""
    per_class = statistics.sample_count / len(statistics.class_names)
    d = len(squared_columns(statistics.layout))
    return 1 / (TEMPERATURE * (1 + TEMPERATURE_PER_FEATURE * d / per_class))


def quadratic(statistics: Statistics, ridge: float | None) -> tuple[Quadratic, Matrix, float]:
    """The head before it is divided by T, its intercept, (class_count,), and ``n r v``.

    Parameters
    ----------
    ridge : ``n r v``; None for that of the formula above
    """
    if not can_square(statistics):
        raise InvalidInput(
            "the statistics hold no gram for each class, which the quadratic head needs; count "
            "with an encoder made with by_class (`safle encoder make --by-class`), or take "
            "another head"
        )
    counted = _ByClass(statistics)
    classes, d = len(statistics.class_names), len(counted.columns)
    require(
        classes * d * (d + 1) * 5 + TOGETHER * 8 * d * d,
        purpose=f"factors of {classes} classes and {d} features",
        advice="solve on a machine with more memory, or take another head",
    )
    r = counted.spread if ridge is None else ridge / statistics.sample_count
    triangles = np.empty((classes, d * (d + 1) // 2), np.float32)
    upper, logarithms = np.triu_indices(d), np.empty(classes)
    offsets = np.empty((classes, d))
    for first in range(0, classes, TOGETHER):
        some = range(first, min(first + TOGETHER, classes))
        factors = np.stack([counted.covariance(place, r) for place in some])
        if not whiten_in_order(factors).all():
            raise SolveError("a class's covariance is singular; use a larger ridge")
        for place, factor in zip(some, factors, strict=True):
            triangles[place] = factor[upper]
            logarithms[place] = log_product(np.diagonal(factor))
            mean = counted.means[place : place + 1]
            offsets[place] = multiply_in_order(mean, np.triu(factor))[0]
    intercept = logarithms + log_shares(statistics.class_counts)
    intercept -= math.fsum(intercept) / classes
    return _round(triangles, offsets), intercept, r * statistics.sample_count


class _ByClass:
    """Means and covariances in real units, entry by entry from the integers."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics, self.columns = statistics, squared_columns(statistics.layout)
        layout, n = statistics.layout, statistics.sample_count
        self._places = self.columns - layout.by_class[0]
        self._real = 1 / np.array(layout.dense_scales, np.float64)[self.columns]
        rows = len(statistics.codes) + self.columns
        self.counts = statistics.class_counts.astype(np.float64)
        sums = statistics.cross[rows] * self._real[:, None]
        self.means: Matrix = np.ascontiguousarray((sums / self.counts).T)
        """(class_count, d)"""
        whole = sum(statistics.class_gram(place) for place in range(len(self.counts)))
        gram = self._of_features(np.asarray(whole))
        within = gram - multiply_in_order(np.ascontiguousarray(sums), self.means)
        self.pooled: Matrix = within / max(n - len(self.counts), 1)
        """S, (d, d)"""
        mean = statistics.cross[rows].sum(axis=1) * self._real / n
        variances = np.maximum(np.diagonal(gram) / n - mean * mean, 0.0)
        d = len(self.columns)
        r = LEAST_SPREAD + SPREAD_PER_FEATURE * d / n
        # Features that never vary say nothing, whatever they are divided by.
        self.spread = r * (math.fsum(variances) / d or 1.0)
        """r v"""

    def _of_features(self, gram: NDArray[np.int64]) -> Matrix:
        real = gram[np.ix_(self._places, self._places)] * self._real
        return real * self._real[:, None]

    def covariance(self, place: int, spread: float) -> Matrix:
        """Sigma_c, (d, d)."""
        count, mean = self.counts[place], self.means[place]
        own = self._of_features(self.statistics.class_gram(place)) / count
        own -= mean[:, None] * mean
        covariance = (1 - POOLED) * own + (1 - (1 - POOLED) * (1 - 1 / count)) * self.pooled
        covariance[np.diag_indices(len(mean))] += spread
        return covariance


def _round(triangles: NDArray[np.float32], offsets: Matrix) -> Quadratic:
    exponent = int(np.frexp(np.abs(triangles).max())[1]) - FACTOR_BITS
    most = (1 << FACTOR_BITS) - 1
    factors = np.clip(np.rint(np.ldexp(triangles, -exponent)), -most, most).astype(np.int16)
    steps = np.rint(np.ldexp(offsets, OFFSET_BITS))
    if np.abs(steps).max() > np.iinfo(np.int32).max:
        raise SolveError(
            "classes lie too far from what the encoder was calibrated on for the quadratic head; "
            "calibrate it on features like the clients'"
        )
    return Quadratic(factors, exponent, steps.astype(np.int32))
