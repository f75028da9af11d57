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
  class, the mean of that and of the quadratic head, by `safle.solver.quadratic.share`;
- quadratic: see `safle.solver.quadratic`.

B is on a grid, the same whoever factored, and from there on every sum has a fixed order
and no library's: so are the heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from safle.errors import SolveError
from safle.solver.kernels import invert_in_order, multiply_in_order
from safle.solver.logarithms import log_shares
from safle.solver.quadratic import Quadratic, can_square, coolness, quadratic, share
from safle.solver.temperature import find_temperature
from safle.statistics import Statistics

HEADS = ("least-squares", "discriminant", "averaged", "quadratic")
LEAST_PIVOT = 1e-13
MOST_CLASSES = 2_000
"""Of the heads that invert a matrix of classes: with twice as many, it takes 8 times as long."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Headed:
    """What a head made of least-squares weights."""

    head: str
    weights: Matrix
    intercept: Matrix
    quadratic: Quadratic | None = None
    temperature: float | None = None


def put_head(
    head: str,
    statistics: Statistics,
    weights: Matrix,
    ridge: float,
    real: Matrix,
    freedom: Callable[[], float] | None = None,
) -> Headed:
    """Weights, intercept and temperature of the head, from the weights of least squares.

    Parameters
    ----------
    head : "auto", or one of `HEADS` that takes weights
    weights : least-squares weights B, (dim, class_count), at this ridge
    real : (dim,), the real value of one unit of each column
    freedom : the degrees of freedom at this ridge; None where no temperature can be had
    """
    classes = len(statistics.class_names)
    without = Headed("least-squares", weights, np.zeros(classes))
    if head == "least-squares" or (head == "auto" and not (ridge and classes > 1)):
        return without
    chosen = "averaged" if head == "auto" else head
    target, counts = statistics.cross * real[:, None], statistics.class_counts
    try:
        turned, product, intercept = discriminant(
            weights, target, counts, average=chosen == "averaged"
        )
    except SolveError:
        if head == "auto":
            return without
        raise
    temperature = None
    if freedom is not None:
        own = multiply_in_order(np.ascontiguousarray(weights.T), weights)
        temperature = find_temperature(
            (product.T, own), (turned, intercept), counts, ridge=ridge, freedom=freedom()
        )
    linear = Headed(chosen, multiply_in_order(weights, turned), intercept, temperature=temperature)
    if chosen == "averaged" and can_square(statistics):
        return _average_squares(statistics, linear)
    return linear


def _average_squares(statistics: Statistics, linear: Headed) -> Headed:
    """The mean of the quadratic head and of one that has weights, each at its temperature."""
    own, cool, say = quadratic(statistics, None), coolness(statistics), share(statistics)
    squared = say * cool
    plain = (1 - say) * (cool if linear.temperature is None else 1 / linear.temperature)
    return Headed(
        "averaged",
        linear.weights * plain + own.weights * squared,
        linear.intercept * plain + own.intercept * squared,
        replace(own.squares, worth=squared),
    )


def discriminant(
    weights: Matrix, target: Matrix, class_counts: NDArray[np.int64], *, average: bool = False
) -> tuple[Matrix, Matrix, Matrix]:
    """A, and M'B, (class_count, class_count), and intercept, (class_count,), of the LDA head.

    Parameters
    ----------
    weights : least-squares weights B, (dim, class_count)
    target : real cross matrix M, (dim, class_count)
    average : of the averaged head instead
    """
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
