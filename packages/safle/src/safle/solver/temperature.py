"""The temperature that makes a head's posteriors honest, from the statistics alone.

A head's scores are ``s = A'u + b`` with u = B'x the least-squares scores, and sums know all
there is to know of u up to second order: its mean in each class, ``B'M / n_c``, and its
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
explained, classes come apart and the line leaves 0 to 1: from an eighth of the labels' variance on,
the log odds above have a say, from five eighths on they have all of it. How this was found is told
in docs/trials.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from safle.solver.heads import factor_in_order, multiply_in_order

Matrix = NDArray[np.float64]
STEPS_PER_OCTAVE, LOWEST, HIGHEST = 8, -3, 7
"""The grid, in octaves."""
WIDER_PER_DOUBLING = 0.35
"""By how much the covariance of a score grows when there are twice as many classes."""
MOST_LEVERAGE = 0.9
"""With more, there is next to nothing left to judge by."""
MOST_DRAWS, MOST_CELLS = 20_000, 1_000_000
"""Samples that are drawn; fewer where their scores would be more than so many numbers."""
QUANTILES = 1_000
"""Number of quantiles of the score at which log odds are fitted."""
LEAST_PROBABILITY, LEAST_SLOPE = 1e-3, 0.05
LOG_ODDS_BITS = 20
"""Significant bits of a and b: the last ones of a logarithm are not the same everywhere."""
MARGIN = 1e-4
"""Losses that differ by less than this share are equally good: the largest T has it."""


@dataclass(frozen=True)
class Fit:
    """What the sums know of the least-squares scores of the samples that were counted."""

    target: Matrix
    """B'M, (class_count, class_count)."""
    weights: Matrix
    """B'B, (class_count, class_count)."""
    counts: Matrix
    """Samples of each class, (class_count,)."""
    ridge: float
    freedom: float
    """Degrees of freedom."""

    @property
    def sample_count(self) -> float:
        return float(self.counts.sum())

    @property
    def leverage(self) -> float:
        """h, within what leaves something to judge by."""
        return min(max(self.freedom / self.sample_count, 0.0), MOST_LEVERAGE)


def find_temperature(fit: Fit, turned: Matrix, intercept: Matrix) -> float | None:
    """T of a head's A and b; None where scores have no spread to be told."""
    counts, n, classes = fit.counts, fit.sample_count, len(fit.counts)
    left = 1 - fit.leverage
    means = fit.target.T / counts[:, None]
    squares = fit.target - fit.ridge * fit.weights
    within = (squares + squares.T) / 2 - multiply_in_order(
        np.ascontiguousarray((means * counts[:, None]).T), np.ascontiguousarray(means)
    )
    wider = 1 + WIDER_PER_DOUBLING * np.log2(max(classes, 2) / 2)
    within *= wider / (max(n - classes, 1.0) * left**2)
    root = _root(within)
    if root is None:
        return None
    draws = _draw(classes)
    # As many of a class as its share, each with its opposite.
    quantiles = (np.arange(len(draws) // 2) + 0.5) / (len(draws) // 2)
    places = np.tile(np.searchsorted(np.cumsum(counts), quantiles * n), 2)
    centres = multiply_in_order((means - (1 - left) * np.eye(classes)) / left, turned) + intercept
    spread = multiply_in_order(draws, multiply_in_order(root, turned))
    return _best(centres[places] + spread, places)


def fit_log_odds(
    fit: Fit, turned: Matrix, intercept: Matrix, temperature: float
) -> tuple[Matrix, Matrix]:
    """A and b of log odds of two classes, from those of the discriminant over its temperature."""
    share = float(fit.counts[1]) / fit.sample_count
    label = share * (1 - share)
    direction = (turned[:, 1] - turned[:, 0]) * temperature
    scores = direction @ fit.target / fit.counts
    # Both have one direction: this is the length of least squares on centred columns.
    length = label / (1 + label * (scores[1] - scores[0]))
    direction, scores = direction * length, scores * length
    mean = (1 - share) * scores[0] + share * scores[1]
    squares = fit.target - fit.ridge * fit.weights
    power = direction @ squares @ direction / fit.sample_count
    variance, shared = power - mean**2, label * (scores[1] - scores[0])
    used = fit.leverage
    left_out = (variance - 2 * used * shared + used**2 * label) / (1 - used) ** 2
    slope = (shared - used * label) / (1 - used) / max(left_out, 1e-12 * label)
    deviation = float(np.sqrt(max(left_out, 1e-12 * label)))
    a, b = _logistic(share, max(float(slope), LEAST_SLOPE) * deviation)
    own = min(max(1.25 - 2 * variance / label, 0.0), 1.0)
    odds = own * b / deviation * direction + (1 - own) * (turned[:, 1] - turned[:, 0])
    at_zero = own * (a - b / deviation * mean) + (1 - own) * (intercept[1] - intercept[0])
    halves = np.array([-0.5, 0.5])
    return odds[:, None] * halves, at_zero * halves


def _logistic(share: float, slope: float) -> tuple[float, float]:
    """The log odds ``a + b z``, z standard normal, nearest to ``share + slope z`` within 0 to 1."""
    z = ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES)
    wanted = np.clip(share + slope * z, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    columns = np.stack([np.ones(QUANTILES), z], axis=1)
    found = np.array([np.log(share / (1 - share)), slope / (share * (1 - share))])
    for _ in range(50):
        odds = 1 / (1 + np.exp(-columns @ found))
        curvature = (columns.T * (odds * (1 - odds))) @ columns
        found += np.linalg.solve(curvature, columns.T @ (wanted - odds))
    mantissas, exponents = np.frexp(found)
    kept = np.rint(np.ldexp(mantissas, LOG_ODDS_BITS))
    a, b = np.ldexp(kept, exponents - LOG_ODDS_BITS).tolist()
    return a, b


def _root(covariance: Matrix) -> Matrix | None:
    """Upper triangular U with ``U'U`` the covariance, which may be singular, but for rounding."""
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
    draws = min(MOST_CELLS // classes, MOST_DRAWS) // 2
    # The generator's bits are the same in every version; what is made of them may not be.
    bits = np.random.PCG64(0).random_raw(draws * (classes + 2)) >> np.uint64(11)
    uniform = ((bits.astype(np.float64) + 0.5) * 2.0**-53).reshape(draws, -1)
    # Chi-square of four degrees of freedom is -2 log(u v); divided by 2, t has variance 1.
    heavy = np.sqrt(-np.log(uniform[:, :1] * uniform[:, 1:2]))
    normal: Matrix = ndtri(uniform[:, 2:]) / heavy
    return np.concatenate([normal, -normal])


def _best(scores: Matrix, places: NDArray[np.int64]) -> float:
    """The T of the grid with the least log loss of samples of these classes."""
    steps = np.arange(LOWEST * STEPS_PER_OCTAVE, HIGHEST * STEPS_PER_OCTAVE + 1)
    grid = 2.0 ** (steps / STEPS_PER_OCTAVE)
    scores = scores - scores.max(axis=1, keepdims=True)
    own = scores[np.arange(len(places)), places]
    losses = np.array([(np.log(np.exp(scores / t).sum(axis=1)) - own / t).mean() for t in grid])
    lowest = losses.min()
    return float(grid[np.flatnonzero(losses <= lowest + MARGIN * lowest + MARGIN**2)[-1]])
