"""Linear discriminant analysis (LDA).

The scatter within classes is regularised: ``C + ridge - M inverse(N) M'``. By Woodbury ``W = B A``,
``A = n inverse(N - M'B)``, and ``intercept_c = log(n_c / n) - mean_c' W_c / 2 = log(n_c / n) -
(A_cc - n / n_c) / 2``, both less their mean over the classes: within classes the constant has no
scatter, so along it W is n / ridge for every class. That part favours no class, and would take all
the bits of the saved weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from safle.errors import SolveError
from safle.solver.heads import BaseOf, FittedHead, Head, Matrix, Vector
from safle.solver.ordered import invert_in_order, log_shares, multiply_in_order
from safle.solver.temperature import find_temperature
from safle.statistics.statistics import Sums

if TYPE_CHECKING:
    from safle.solver.least_squares import LeastSquares

MIN_PIVOT = 1e-13
MAX_CLASSES = 2_000
"""A matrix of classes is inverted: twice as many classes take 8 times as long."""


def fit(sums: Sums, base_of: BaseOf) -> FittedHead:  # noqa: ARG001
    """The head of the sums."""
    return fit_base(base_of())


def fit_base(base: LeastSquares) -> FittedHead:
    """The head of the sums that ``base`` was solved from."""
    mixing, intercept = centre(*mix(base))
    return of_mixing(HEAD.name, base, mixing, intercept)


def mix(base: LeastSquares) -> tuple[Matrix, Vector]:
    """A and the intercept, before they are centred."""
    class_counts = base.sums.class_counts
    if len(class_counts) > MAX_CLASSES:
        raise SolveError(
            f"{len(class_counts)} classes; this head takes at most {MAX_CLASSES}: use head "
            "'least-squares'"
        )
    counts = class_counts.astype(np.float64)
    n = float(class_counts.sum())
    mixing = np.diag(counts) - base.target_products
    if not invert_in_order(mixing, MIN_PIVOT * counts):
        raise SolveError("the within-class scatter is singular; use a larger ridge")
    mixing *= n
    intercept = log_shares(class_counts) - 0.5 * (np.diagonal(mixing) - n / counts)
    return mixing, intercept


def centre(mixing: Matrix, intercept: Vector) -> tuple[Matrix, Vector]:
    """Both less their mean over the classes."""
    return mixing - mixing.mean(axis=1, keepdims=True), intercept - intercept.mean()


def of_mixing(name: str, base: LeastSquares, mixing: Matrix, intercept: Vector) -> FittedHead:
    """The head with weights ``B mixing``, and its temperature, if the sums show one."""
    temperature = None
    if base.sums.gives_temperature:
        temperature = find_temperature(base, mixing, intercept)
    weights = multiply_in_order(base.weights, mixing)
    return FittedHead(name, base.ridge, weights, intercept, temperature)


HEAD = Head(name="discriminant", summary="LDA", fit=fit)
