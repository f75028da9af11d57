"""The quadratic head: a covariance for each class, regularised (Friedman's RDA, 1989).

With d features, n samples in C classes, n_c of them in class c, and v the mean variance of
a feature,

    ``Sigma_c = (1 - a) S_c + (1 - (1 - a)(1 - 1/n_c)) S + r v I``,
    ``S_c = scatter_c / n_c``, ``S = sum_c scatter_c / (n - C)``, ``r = 0.05 + 0.3 d / n``.

So a class of many samples has ``(1 - a) S_c + a S``, and one of a single sample has S: all
are of one size, however few samples a class has. The score of class c is its log posterior,

    ``-|V_c' (x - m_c)|^2 / 2 + log det V_c + log(n_c / n)``, ``V_c V_c' = inverse(Sigma_c)``,

with V_c upper triangular, all divided by ``T = 2.5 (1 + 0.06 d C / n)``: features are not
normal, and posteriors as if they were would be too sure.

**Directions.** With few samples per class, most of the d directions of S_c are noise. Then
only k of them count (`directions`): those in which the class varies most beside
``P = S + r v I``. With ``V V' = inverse(P)``, and l_j > 1 the k largest eigenvalues of
``V' Sigma_c V``, u_j their eigenvectors, the others taken as 1, and ``-x' inverse(P) x / 2``,
which all classes share, left out:

    ``(inverse(P) m_c)' x - m_c' inverse(P) m_c / 2 + |G_c' (x - m_c)|^2 / 2 - sum_j log(l_j) / 2``,
    column j of G_c: ``sqrt(1 - 1 / l_j) V u_j``.

How a, r, T and k were found is told in docs/trials.md. Integers become float64 entry by
entry, every sum has a fixed order and no library's, and V_c and G_c are rounded to 16 bits:
equal statistics give equal heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require
from safle.errors import InvalidInput, SolveError
from safle.solver.class_covariances import ClassCovariances, squared_columns
from safle.solver.directions import lead
from safle.solver.kernels import multiply_in_order, whiten_in_order
from safle.solver.logarithms import log_product, log_shares
from safle.statistics import Statistics

POOLED = 0.9
"""a: 0.85 to 0.95 did alike on every data set tried, from 100 samples per class on."""
UNITS_PER_FEATURE = 0.5
"""Columns beside one that is squared, for each class, with which the quadratic head has half a
say in the averaged one."""
TEMPERATURE, TEMPERATURE_PER_FEATURE = 2.5, 0.06
SAMPLES_PER_DIRECTION = 15
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
    2**OFFSET_BITS`` and x the real values of `squared_columns`; where it is known by its
    directions G, ``+worth |y|^2 / 2``, with G in the place of V.

    Attributes
    ----------
    factors : int16, (class_count, d (d + 1) / 2), rows of upper triangular V; or
        (class_count, d, k), G
    exponent : of the power of two that factors are multiples of
    offsets : int32, (class_count, d), or (class_count, k)
    worth : 1, or less where other heads have a say
    """

    factors: NDArray[np.int16]
    exponent: int
    offsets: NDArray[np.int32]
    worth: float = 1.0

    @property
    def by_directions(self) -> bool:
        """Whether ``factors`` are G."""
        return self.factors.ndim == 3


@dataclass(frozen=True, eq=False)
class Squared:
    """The quadratic head before it is divided by T.

    Attributes
    ----------
    weights : float64, (dim, class_count), in real units
    intercept : float64, (class_count,)
    ridge : ``n r v``
    """

    squares: Quadratic
    weights: Matrix
    intercept: Matrix
    ridge: float


def can_square(statistics: Statistics) -> bool:
    """Whether the statistics have what the quadratic head needs."""
    return len(squared_columns(statistics.layout)) > 0


def share(statistics: Statistics) -> float:
    """Of the quadratic head in the averaged one, 0 to 1.

    The more columns there are for a class beside those that are squared, the better linear
    heads tell classes apart.
    """
    d = len(squared_columns(statistics.layout))
    at_half = UNITS_PER_FEATURE * d * len(statistics.class_names)
    return at_half / (at_half + statistics.dim - d - len(statistics.layout.constants))


def coolness(statistics: Statistics) -> float:
    """1 / T."""
    per_class = statistics.sample_count / len(statistics.class_names)
    d = len(squared_columns(statistics.layout))
    return 1 / (TEMPERATURE * (1 + TEMPERATURE_PER_FEATURE * d / per_class))


def directions(statistics: Statistics) -> int:
    """k, or 0 where triangles are no larger than so many directions."""
    d = len(squared_columns(statistics.layout))
    samples = SAMPLES_PER_DIRECTION * len(statistics.class_names)
    k = max(1, statistics.sample_count // samples)
    return k if 2 * k < d else 0


def quadratic(statistics: Statistics, ridge: float | None) -> Squared:
    """The head, from statistics that are counted by class.

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
    d, k = len(squared_columns(statistics.layout)), directions(statistics)
    classes = len(statistics.class_names)
    held = k * d * 10 if k else d * (d + 1) * 5
    require(
        classes * held + TOGETHER * 8 * d * (d + 6 * k + 100),
        purpose=f"factors of {classes} classes and {d} features",
        advice="solve on a machine with more memory, or take another head",
    )
    counted = ClassCovariances(statistics)
    r = counted.spread if ridge is None else ridge / statistics.sample_count
    squares, weights, intercept = _differ(counted, r, k) if k else _whiten(counted, r)
    intercept += log_shares(statistics.class_counts)
    intercept -= math.fsum(intercept) / classes
    return Squared(squares, weights, intercept, r * statistics.sample_count)


def _whiten(counted: ClassCovariances, spread: float) -> tuple[Quadratic, Matrix, Matrix]:
    """Triangles, no weights, and ``log det V_c``."""
    classes, d = counted.means.shape
    triangles = np.empty((classes, d * (d + 1) // 2), np.float32)
    upper, logarithms = np.triu_indices(d), np.empty(classes)
    offsets = np.empty((classes, d))
    for first in range(0, classes, TOGETHER):
        some = range(first, min(first + TOGETHER, classes))
        factors = np.stack([_covariance(counted, place, spread) for place in some])
        _require_whitened(whiten_in_order(factors))
        for place, factor in zip(some, factors, strict=True):
            triangles[place] = factor[upper]
            logarithms[place] = log_product(np.diagonal(factor))
            mean = counted.means[place : place + 1]
            offsets[place] = multiply_in_order(mean, np.triu(factor))[0]
    weights = np.zeros((counted.statistics.dim, classes))
    return _round(triangles, offsets), weights, logarithms


def _covariance(counted: ClassCovariances, place: int, spread: float) -> Matrix:
    """Sigma_c, (d, d)."""
    lent = (1 - POOLED) * (1 - 1 / counted.counts[place])
    covariance = (1 - POOLED) * counted.own(place) + (1 - lent) * counted.pooled
    covariance[np.diag_indices(len(covariance))] += spread
    return covariance


def _differ(counted: ClassCovariances, spread: float, k: int) -> tuple[Quadratic, Matrix, Matrix]:
    """Directions, weights, and what else the score of a class has at x = 0."""
    classes, d = counted.means.shape
    whole = counted.pooled.copy()
    whole[np.diag_indices(d)] += spread
    _require_whitened(whiten_in_order(whole[None]))
    white = np.triu(whole)
    means = multiply_in_order(counted.means, white)
    factors, offsets = np.zeros((classes, d, k), np.float32), np.zeros((classes, k))
    intercept = np.empty(classes)
    for first in range(0, classes, TOGETHER):
        some = range(first, min(first + TOGETHER, classes))
        differences = np.stack([_difference(counted, place) for place in some])
        for place, (values, vectors) in zip(some, lead(differences, white, k), strict=True):
            # Beyond 1: the eigenvalues are those of V' (Sigma_c - P) V.
            beyond = np.maximum(values, 0.0)
            scaled = np.ascontiguousarray((vectors * np.sqrt(beyond / (1 + beyond))[:, None]).T)
            own, mean = slice(0, len(beyond)), means[place : place + 1]
            factors[place, :, own] = multiply_in_order(white, scaled)
            offsets[place, own] = multiply_in_order(mean, scaled)[0]
            far = multiply_in_order(mean, np.ascontiguousarray(mean.T))[0, 0]
            intercept[place] = -(far + log_product(1 + beyond)) / 2
    weights = np.zeros((counted.statistics.dim, classes))
    middle = multiply_in_order(np.full((1, classes), 1 / classes), means)
    weights[counted.rows] = multiply_in_order(white, np.ascontiguousarray((means - middle).T))
    return _round(factors, offsets), weights, intercept


def _difference(counted: ClassCovariances, place: int) -> Matrix:
    """Sigma_c - P, (d, d)."""
    own = counted.own(place) - (1 - 1 / counted.counts[place]) * counted.pooled
    difference: Matrix = (1 - POOLED) * own
    return difference


def _require_whitened(done: NDArray[np.bool_]) -> None:
    if not done.all():
        raise SolveError("a class's covariance is singular; use a larger ridge")


def _round(real: NDArray[np.float32], offsets: Matrix) -> Quadratic:
    exponent = int(np.frexp(np.abs(real).max())[1]) - FACTOR_BITS
    most = (1 << FACTOR_BITS) - 1
    factors = np.clip(np.rint(np.ldexp(real, -exponent)), -most, most).astype(np.int16)
    steps = np.rint(np.ldexp(offsets, OFFSET_BITS))
    if np.abs(steps).max() > np.iinfo(np.int32).max:
        raise SolveError(
            "classes lie too far from what the encoder was calibrated on for the quadratic head; "
            "calibrate it on features like the clients'"
        )
    return Quadratic(factors, exponent, steps.astype(np.int32))
