"""The heads that the sums allow, added up.

S is the mean of least squares and the discriminant, after least squares is stretched until its
matrix (a multiple of I in the place of A) has the discriminant's trace. Least squares hardly finds
rare classes: its share is half the square of ``n^2 / (K sum_c n_c^2)``, which is 1 where all K
classes have as many samples. Two classes have one direction under every head: their scores are log
odds, by `safle.solver.temperature`.

Where sums are counted by class, the quadratic head Q and the discriminant L of the d linear columns
are added: with U other columns,

    ``Q + a (S - 3/4 L)``, ``a = min(1, (2 U / (K d))^(1/2))``,

Q and L at the ridge 0.05 n. S and L have the same direction, roughly: what is added is how Q
differs from it. It gains where classes are many or have many samples, and loses where a covariance
would be mostly noise, or rare classes are to be found (`gains_by_class`). docs/trials.md has the
figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from safle.solver.heads import BaseOf, FittedHead, Head, discriminant
from safle.solver.heads import quadratic as squares
from safle.solver.heads.discriminant import centre, mix, of_mixing
from safle.solver.ordered import multiply_in_order
from safle.solver.temperature import find_temperature, fit_log_odds
from safle.statistics.statistics import Sums

if TYPE_CHECKING:
    from safle.solver.least_squares import LeastSquares

LINEAR_SHARE = 0.75
"""Share of the linear columns' discriminant that is taken off."""
RIDGE_PER_SAMPLE = 0.05
"""Ridge of the linear columns: standardised, they have a variance of 1."""
MANY_CLASSES = 20
SAMPLES_PER_FEATURE = 4
MIN_BALANCE = 0.9
"""From here on, and with many classes or many samples in each, classes' covariances gain."""


def fit(sums: Sums, base_of: BaseOf) -> FittedHead:
    """S, with the quadratic head where sums are counted by class and that gains."""
    classes = len(sums.class_names)
    if classes < 2 or not squares.can_square(sums):
        return fit_linear(sums, base_of)
    d = len(sums.layout.squared_columns)
    others = sums.dim - d - len(sums.layout.constants)
    if not others:
        return squares.fit_base(sums, base_of(squares.sum_of_classes(sums)), HEAD.name)
    if not gains_by_class(sums):
        return fit_linear(sums, base_of)
    both = _fit_many(base_of())
    base = base_of(squares.sum_of_classes(sums), RIDGE_PER_SAMPLE * sums.sample_count)
    linear = discriminant.fit_base(base)
    squared = squares.fit_base(sums, base, HEAD.name)
    share = min(1.0, (2 * others / (classes * d)) ** 0.5)
    weights = both.weights * share + squared.weights
    rows = slice(len(sums.codes), len(sums.codes) + len(linear.weights))
    weights[rows] -= linear.weights * (share * LINEAR_SHARE)
    intercept = squared.intercept + share * (both.intercept - LINEAR_SHARE * linear.intercept)
    temperature = None
    if both.temperature and linear.temperature and squared.temperature:
        # Scores over their temperatures are log posteriors, which are added with these weights.
        rest = both.temperature - LINEAR_SHARE * linear.temperature
        temperature = squared.temperature + share * rest
    return FittedHead(HEAD.name, both.ridge, weights, intercept, temperature, squared.quadratic)


def gains_by_class(sums: Sums) -> bool:
    """Whether a covariance for each class is known well enough to gain."""
    least = SAMPLES_PER_FEATURE * len(sums.layout.squared_columns)
    known = len(sums.class_names) >= MANY_CLASSES or int(sums.class_counts.min()) >= least
    return known and balance(sums) >= MIN_BALANCE


def balance(sums: Sums) -> float:
    """``n^2 / (K sum_c n_c^2)``: 1 where all K classes have as many samples."""
    counts = sums.class_counts.astype(np.float64)
    return float(counts.sum() ** 2 / (len(counts) * (counts**2).sum()))


def fit_linear(sums: Sums, base_of: BaseOf) -> FittedHead:
    """S; log odds of two classes."""
    base = base_of()
    if len(sums.class_names) == 2 and sums.gives_temperature:
        return _fit_two(base)
    return _fit_many(base)


def _fit_many(base: LeastSquares) -> FittedHead:
    """S, of two classes too."""
    classes = len(base.sums.class_names)
    share = balance(base.sums) ** 2 / 2
    mixing, intercept = mix(base)
    # The trace of A less its mean over the classes, for each of the K - 1 directions left.
    strength = (np.trace(mixing) - mixing.sum() / classes) / max(classes - 1, 1)
    stretched = strength * np.eye(classes)
    mixing, intercept = centre((1 - share) * mixing + share * stretched, (1 - share) * intercept)
    return of_mixing(HEAD.name, base, mixing, intercept)


def _fit_two(base: LeastSquares) -> FittedHead:
    mixing, intercept = centre(*mix(base))
    temperature = find_temperature(base, mixing, intercept)
    if temperature is not None:
        mixing, intercept = fit_log_odds(
            base, mixing / temperature, intercept / temperature, temperature
        )
        temperature = 1.0
    weights = multiply_in_order(base.weights, mixing)
    return FittedHead(HEAD.name, base.ridge, weights, intercept, temperature)


HEAD = Head(name="averaged", summary="those that the statistics allow, added up", fit=fit)
