"""Heads: what to make of the solved system. All are exact functions of the sums.

- least squares: ``W = B = inverse(C + ridge) M``, no intercept;
- discriminant (LDA with the regularised within-class scatter ``C + ridge - M inverse(N)
  M'``): by Woodbury, with N the class counts, ``W = B A``, ``A = n inverse(N - M'B)``, and
  ``intercept_c = log(n_c / n) - mean_c' W_c / 2 = log(n_c / n) - (A_cc - n / n_c) / 2``,
  both without what all classes share: within classes the constant has no scatter, so
  along it W is n / ridge for every class. That says nothing, and would take all the bits
  of the saved weights;
- averaged: the mean of both, after least squares is stretched until its matrix (a multiple
  of I in the place of A) has the discriminant's trace.

B is on a grid, the same whoever factored, and from there on every sum has a fixed order
and no library's: so are the heads.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from safle.errors import SolveError
from safle.solver.kernels import invert_in_order, multiply_in_order

HEADS = ("least-squares", "discriminant", "averaged")
LEAST_PIVOT = 1e-13
MOST_CLASSES = 2_000
"""Of the heads that invert a matrix of classes: with twice as many, it takes 8 times as long."""
Matrix = NDArray[np.float64]


def discriminant(
    weights: Matrix, target: Matrix, class_counts: NDArray[np.int64], *, average: bool = False
) -> tuple[Matrix, Matrix]:
    """Weights, (dim, class_count), and intercept, (class_count,), of the LDA head.

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
    turned = np.diag(counts) - multiply_in_order(np.ascontiguousarray(target.T), weights)
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
    return multiply_in_order(weights, turned), intercept - intercept.mean()


def log_shares(class_counts: NDArray[np.int64]) -> Matrix:
    """``log(n_c / n)``, correctly rounded: C libraries differ in the last bit."""
    whole = Decimal(int(class_counts.sum())).ln()
    return np.array([float(Decimal(count).ln() - whole) for count in class_counts.tolist()])
