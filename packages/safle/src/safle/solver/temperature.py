"""The temperature that makes a head's posteriors honest, from the statistics alone.

A head's scores are ``s = A'u + b`` with u = B'x the least-squares scores. The sums
determine u up to second order: its mean in each class, ``B'M / n_c``, and its
covariance within classes, from ``B'CB = B'M - ridge B'B``. On the samples that B was solved
from, u is too good: a sample that is left out has ``(u_i - h_i y_i) / (1 - h_i)``. With the mean
leverage h = df / n for each h_i, as in generalised cross-validation, u given class c then has

    mean ``(mean_c - h e_c) / (1 - h)``, covariance ``covariance / (1 - h)^2``.

Classes are not normal, and differ in their covariances, the more so the more there are: scores are
drawn from Student's t with four degrees of freedom of that mean and ``1 + 0.35 log2(K / 2)`` times
that covariance, for K classes, and T is the temperature of the least expected log loss of
``softmax(s / T)``. The draws are fixed, and T is chosen from a grid: it does not move with the last
bits of a sum.

**Two classes.** Least squares estimates the label itself, ``P(yes | t) = p + slope (t - mean)``
with t its score for yes: where little of the labels is explained, that is closer to the truth than
any assumption on classes. So the log odds are ``a + b (t - mean)`` of the least expected log loss
under it, with t normal of the variance that scores have when they are left out. Where more is
explained, classes come apart and the line leaves 0 to 1: between one eighth and five eighths of the
labels' variance, these log odds give way to those above. docs/trials.md tells how this was found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from safle.solver.ordered import factor_in_order, multiply_in_order

if TYPE_CHECKING:
    from safle.solver.least_squares import LeastSquares

Matrix = NDArray[np.float64]
STEPS_PER_OCTAVE = 8
MIN_OCTAVE = -3
MAX_OCTAVE = 7
"""Ends of the grid."""
WIDER_PER_DOUBLING = 0.35
"""By how much the covariance of a score grows when there are twice as many classes."""
MAX_DRAWS = 20_000
"""Samples that are drawn."""
MAX_SCORES = 1_000_000
"""Of all samples together that are drawn."""
QUANTILES = 1_000
"""Number of quantiles of the score at which log odds are fitted."""
MIN_PROBABILITY = 1e-3
MIN_SLOPE = 0.05
LOG_ODDS_BITS = 20
"""Significant bits of a and b: the last bits of a logarithm differ between machines."""
MARGIN = 1e-4
"""Losses that differ by less than this share are equally good: the largest T wins."""


def find_temperature(base: LeastSquares, mixing: Matrix, intercept: Matrix) -> float | None:
    """T of a head's A and b; None where scores have no spread."""
    counts = base.sums.class_counts
    classes = len(counts)
    n = float(counts.sum())
    left = 1 - base.leverage
    means = base.target_products / counts[:, None]
    squares = base.score_products
    within = (squares + squares.T) / 2 - multiply_in_order(
        np.ascontiguousarray((means * counts[:, None]).T), np.ascontiguousarray(means)
    )
    wider = 1 + WIDER_PER_DOUBLING * np.log2(max(classes, 2) / 2)
    within *= wider / (max(n - classes, 1.0) * left**2)
    root = _root(within)
    if root is None:
        return None
    draws = _draw(classes)
    # Each class gets its share of the draws; a draw and its opposite have the same class.
    quantiles = (np.arange(len(draws) // 2) + 0.5) / (len(draws) // 2)
    places = np.tile(np.searchsorted(np.cumsum(counts), quantiles * n), 2)
    centres = multiply_in_order((means - (1 - left) * np.eye(classes)) / left, mixing) + intercept
    spread = multiply_in_order(draws, multiply_in_order(root, mixing))
    return best_temperature(centres[places] + spread, places)


def fit_log_odds(
    base: LeastSquares, mixing: Matrix, intercept: Matrix, temperature: float
) -> tuple[Matrix, Matrix]:
    """A and b of log odds of two classes, from those of the discriminant over its temperature."""
    counts = base.sums.class_counts
    n = float(counts.sum())
    share = float(counts[1]) / n
    label_variance = share * (1 - share)
    direction = (mixing[:, 1] - mixing[:, 0]) * temperature
    scores = direction @ base.target_products.T / counts
    # Least squares on centred columns has the same direction, and this length.
    length = label_variance / (1 + label_variance * (scores[1] - scores[0]))
    direction = direction * length
    scores = scores * length
    mean = (1 - share) * scores[0] + share * scores[1]
    variance = direction @ base.score_products @ direction / n - mean**2
    covariance = label_variance * (scores[1] - scores[0])
    h = base.leverage
    left_out = (variance - 2 * h * covariance + h**2 * label_variance) / (1 - h) ** 2
    left_out = max(left_out, 1e-12 * label_variance)
    slope = (covariance - h * label_variance) / (1 - h) / left_out
    deviation = float(np.sqrt(left_out))
    a, b = _logistic(share, max(float(slope), MIN_SLOPE) * deviation)
    weight = min(max(1.25 - 2 * variance / label_variance, 0.0), 1.0)
    odds = weight * b / deviation * direction + (1 - weight) * (mixing[:, 1] - mixing[:, 0])
    at_zero = weight * (a - b / deviation * mean) + (1 - weight) * (intercept[1] - intercept[0])
    halves = np.array([-0.5, 0.5])
    return odds[:, None] * halves, at_zero * halves


def _logistic(share: float, slope: float) -> tuple[float, float]:
    """The log odds ``a + b z``, z standard normal, nearest to ``share + slope z`` within 0 to 1."""
    z = ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES)
    probabilities = np.clip(share + slope * z, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    columns = np.stack([np.ones(QUANTILES), z], axis=1)
    coefficients = np.array([np.log(share / (1 - share)), slope / (share * (1 - share))])
    for _ in range(50):
        fitted = 1 / (1 + np.exp(-columns @ coefficients))
        curvature = (columns.T * (fitted * (1 - fitted))) @ columns
        coefficients += np.linalg.solve(curvature, columns.T @ (probabilities - fitted))
    mantissas, exponents = np.frexp(coefficients)
    kept = np.rint(np.ldexp(mantissas, LOG_ODDS_BITS))
    a, b = np.ldexp(kept, exponents - LOG_ODDS_BITS).tolist()
    return a, b


def _root(covariance: Matrix) -> Matrix | None:
    """Upper triangular U with ``U'U`` the covariance up to rounding; it may be singular."""
    size = len(covariance)
    trace = float(np.trace(covariance))
    if not 0 < trace < np.inf:
        return None
    for share in (1e-9, 1e-6, 1e-3):
        root = covariance + share * trace / size * np.eye(size)
        if factor_in_order(root):
            return np.triu(root)
    return None


def _draw(classes: int) -> Matrix:
    """Student's t of unit variance, (draws, class_count), each with its opposite."""
    draws = min(MAX_SCORES // classes, MAX_DRAWS) // 2
    # NumPy keeps the generator's bits in every version, but not the distributions it draws.
    bits = np.random.PCG64(0).random_raw(draws * (classes + 2)) >> np.uint64(11)
    uniform = ((bits.astype(np.float64) + 0.5) * 2.0**-53).reshape(draws, -1)
    # Chi-square of four degrees of freedom is -2 log(u v); divided by 2, t has variance 1.
    heavy = np.sqrt(-np.log(uniform[:, :1] * uniform[:, 1:2]))
    normal: Matrix = ndtri(uniform[:, 2:]) / heavy
    return np.concatenate([normal, -normal])


def best_temperature(scores: Matrix, places: NDArray[np.int64]) -> float:
    """The T of the grid with the least log loss of samples of these classes."""
    steps = np.arange(MIN_OCTAVE * STEPS_PER_OCTAVE, MAX_OCTAVE * STEPS_PER_OCTAVE + 1)
    grid = 2.0 ** (steps / STEPS_PER_OCTAVE)
    scores = scores - scores.max(axis=1, keepdims=True)
    own = scores[np.arange(len(places)), places]

    @cache
    def loss(place: int) -> float:
        t = grid[place]
        return float((np.log(np.exp(scores / t).sum(axis=1)) - own / t).mean())

    # The loss is convex in 1 / T: along the grid it falls, and then rises.
    falls_until = bisect_left(range(len(grid) - 1), True, key=lambda at: loss(at) <= loss(at + 1))
    lowest = loss(falls_until)
    most = lowest + MARGIN * lowest + MARGIN**2
    return float(grid[bisect_right(range(len(grid)), most, lo=falls_until, key=loss) - 1])
