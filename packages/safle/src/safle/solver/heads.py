"""Heads: what to make of the solved system. All are exact functions of the sums.

- least squares: ``W = B = inverse(C + ridge) M``, no intercept;
- discriminant (LDA with the regularised within-class scatter ``C + ridge - M inverse(N)
  M'``): by Woodbury, with N the class counts, ``W = B A``, ``A = n inverse(N - M'B)``, and
  ``intercept_c = log(n_c / n) - mean_c' W_c / 2 = log(n_c / n) - (A_cc - n / n_c) / 2``,
  both without what all classes share: within classes the constant has no scatter, so
  along it W is n / ridge for every class. That says nothing, and would take all the bits
  of the saved weights;
- averaged: the mean of both, after least squares is stretched until its matrix (a multiple
  of I in the place of A) has the discriminant's trace; where statistics are counted by
  class, the mean of that and of the quadratic head, by `safle.solver.quadratic`. Two
  classes have one direction, whatever the head: their scores are log odds, by
  `safle.solver.temperature`;
- quadratic: see `safle.solver.quadratic`.

B is on a grid, the same whoever factored, and from there on every sum of the linear heads has a
fixed order and no library's: so are they.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from safle.encoders.features import ClassName
from safle.errors import InvalidInput, SolveError
from safle.solver.ordered import invert_in_order, log_shares, multiply_in_order
from safle.solver.solution import Solution
from safle.solver.temperature import find_temperature, fit_log_odds
from safle.statistics.value import Sums

LEAST_PIVOT = 1e-13
MOST_CLASSES = 2_000
"""For heads that invert a matrix of classes: twice as many classes take 8 times as long."""
Matrix = NDArray[np.float64]
Priors = Literal["uniform"] | Mapping[ClassName, float]
"""How frequent classes are where a model is used, if not as they were counted."""


def put_head(
    head: str,
    statistics: Sums,
    solved: Solution,
    real: Matrix,
    freedom: Callable[[], float] | None = None,
) -> Solution:
    """What least squares ``solved``, with weights, intercept and temperature of another head.

    ``real``, (dim,), is the value of one unit of each column; ``freedom`` the degrees of freedom,
    None where no temperature can be had.
    """
    several = len(statistics.class_names) > 1
    if head == "least-squares" or (head == "auto" and not (solved.ridge and several)):
        return solved
    chosen = "averaged" if head == "auto" else head
    weights, counts = solved.weights, statistics.class_counts
    one_direction = chosen == "averaged" and len(counts) == 2 and freedom is not None
    target = statistics.cross * real[:, None]
    try:
        turned, product, intercept = discriminant(
            weights, target, counts, average=chosen == "averaged" and not one_direction
        )
    except SolveError:
        if head == "auto":
            return solved
        raise
    temperature = None
    if freedom is not None:
        own = multiply_in_order(np.ascontiguousarray(weights.T), weights)
        known = {"ridge": solved.ridge, "freedom": freedom()}
        temperature = find_temperature((product.T, own), (turned, intercept), counts, **known)
        if one_direction and temperature is not None:
            known["temperature"] = temperature
            over = turned / temperature, intercept / temperature
            turned, intercept = fit_log_odds((product.T, own), over, counts, **known)
            temperature = 1.0
    return replace(
        solved,
        head=chosen,
        weights=multiply_in_order(weights, turned),
        intercept=intercept,
        temperature=temperature,
    )


def discriminant(
    weights: Matrix, target: Matrix, class_counts: NDArray[np.int64], *, average: bool = False
) -> tuple[Matrix, Matrix, Matrix]:
    """A, M'B and intercept of the LDA head, or of the averaged one, from B and the real M."""
    counts, classes = class_counts.astype(np.float64), len(class_counts)
    if classes > MOST_CLASSES:
        raise SolveError(
            f"{classes} classes; this head takes at most {MOST_CLASSES}: use head 'least-squares'"
        )
    n = float(class_counts.sum())
    product = multiply_in_order(np.ascontiguousarray(target.T), weights)
    turned = np.diag(counts) - product
    if not invert_in_order(turned, LEAST_PIVOT * counts):
        raise SolveError("the within-class scatter is singular; use a larger ridge")
    turned *= n
    intercept = log_shares(class_counts) - 0.5 * (np.diagonal(turned) - n / counts)
    if average:
        # Of what is left when that which all classes share is taken out.
        strength = (np.trace(turned) - turned.sum() / classes) / max(classes - 1, 1)
        turned = (turned + strength * np.eye(classes)) / 2
        intercept = intercept / 2
    turned -= turned.mean(axis=1, keepdims=True)
    return turned, product, intercept - intercept.mean()


def shift_of(
    priors: Priors, class_names: tuple[ClassName, ...], class_counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What priors add to log posteriors, (class_count,), without what all classes share.

    Scores over their temperature are log posteriors: each moves by ``log prior_c - log n_c / n``.

    >>> shift_of("uniform", ("ill", "well"), np.array([1, 3])).round(6).tolist()
    [0.549306, -0.549306]
    """
    shift = -log_shares(class_counts)
    if priors != "uniform":
        shift += [float(Decimal(float(p)).ln()) for p in _checked(priors, class_names)]
    return shift - math.fsum(shift) / len(shift)


def _checked(priors: Priors, class_names: tuple[ClassName, ...]) -> list[float]:
    if not isinstance(priors, Mapping):
        raise InvalidInput(f"priors {priors!r}; expected 'uniform', or a number for each class")
    if wrong := [str(name) for name in {*priors} ^ {*class_names}]:
        raise InvalidInput(
            f"priors name {len(priors)} classes, the statistics {len(class_names)}; "
            f"{', '.join(sorted(wrong)[:5])} in one of them only: give one for each class"
        )
    for name, prior in priors.items():
        if not 0 < float(prior) < math.inf:
            raise InvalidInput(f"prior {prior!r} of class {name!r}; expected a positive number")
    return [priors[name] for name in class_names]
