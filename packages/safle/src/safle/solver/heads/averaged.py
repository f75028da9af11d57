"""The mean of the heads that the sums allow.

The mean of least squares and the discriminant, after least squares is stretched until its matrix (a
multiple of I in the place of A) has the discriminant's trace; where sums are counted by class, the
mean of that and of the quadratic head, both over their temperatures. Two classes have one direction
under every head: their scores are log odds, by `safle.solver.temperature`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from safle.solver.heads import BaseOf, FittedHead, Head
from safle.solver.heads import quadratic as squares
from safle.solver.heads.discriminant import centre, mix, of_mixing
from safle.solver.ordered import multiply_in_order
from safle.solver.temperature import find_temperature, fit_log_odds
from safle.statistics.statistics import Sums

if TYPE_CHECKING:
    from safle.solver.least_squares import LeastSquares

COLUMNS_PER_FEATURE = 0.5
"""With this many other columns per squared column and class, the quadratic head weighs half."""


def fit(sums: Sums, base_of: BaseOf) -> FittedHead:
    """The mean of the linear heads, and of the quadratic one where sums are counted by class."""
    if len(sums.class_names) < 2 or not squares.can_square(sums):
        return fit_linear(sums, base_of)
    share = quadratic_share(sums)
    if share == 1:
        return squares.fit_base(sums, base_of(squares.sum_of_classes(sums)), HEAD.name)
    linear = fit_linear(sums, base_of)
    base = base_of(squares.sum_of_classes(sums), "auto")
    squared = squares.fit_base(sums, base, HEAD.name, share)
    linear_share = (1 - share) * (squared.temperature or 1.0) / (linear.temperature or 1.0)
    return FittedHead(
        HEAD.name,
        linear.ridge,
        linear.weights * linear_share + squared.weights * share,
        linear.intercept * linear_share + squared.intercept * share,
        squared.temperature,
        squared.quadratic,
    )


def fit_linear(sums: Sums, base_of: BaseOf) -> FittedHead:
    """The mean of least squares and the discriminant; log odds of two classes."""
    base = base_of()
    classes = len(sums.class_names)
    if classes == 2 and sums.gives_temperature:
        return _fit_two(base)
    mixing, intercept = mix(base)
    # The trace of A less its mean over the classes, for each of the K - 1 directions left.
    strength = (np.trace(mixing) - mixing.sum() / classes) / max(classes - 1, 1)
    mixing, intercept = centre((mixing + strength * np.eye(classes)) / 2, intercept / 2)
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


def quadratic_share(sums: Sums) -> float:
    """Share of the quadratic head; more other columns make it smaller."""
    d = len(sums.layout.squared_columns)
    at_half = COLUMNS_PER_FEATURE * d * len(sums.class_names)
    return at_half / (at_half + sums.dim - d - len(sums.layout.constants))


HEAD = Head(name="averaged", summary="the mean of those that the statistics allow", fit=fit)
