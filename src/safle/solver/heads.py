"""Heads: what to make of the solved system. All are exact functions of the sums.

- least squares: ``W = inverse(C + ridge) M``, no intercept;
- discriminant (LDA with the regularised within-class scatter ``C + ridge - M inverse(N)
  M'``): by Woodbury, with ``B = inverse(C + ridge) M`` and N the class counts,
  ``W = B A``, ``A = n inverse(I - inverse(N) M'B) inverse(N)``, and
  ``intercept_c = log(n_c / n) - mean_c' W_c / 2``, both without what all classes share:
  within classes the constant has no scatter, so along it W is n / ridge for every class.
  That says nothing, and would take all the bits of the saved weights;
- averaged: the mean of both, after least squares is stretched until its matrix (a multiple
  of I in the place of A) has the discriminant's trace.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from safle.errors import SolveError

HEADS = ("least-squares", "discriminant", "averaged")
MOST_CONDITION = 1e13
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
    counts = class_counts.astype(np.float64)
    n, classes = counts.sum(), len(counts)
    # One thread: these products are small, and their order of summation stays fixed.
    with threadpool_limits(1):
        means = (target.T @ weights) / counts[:, None]
        inner = np.eye(classes) - means
        if not np.linalg.cond(inner) < MOST_CONDITION:
            raise SolveError("the within-class scatter is singular; use a larger ridge")
        turned = np.linalg.solve(inner, np.diag(n / counts))
        intercept = np.log(counts / n) - 0.5 * np.einsum("ck,kc->c", means, turned)
        if average:
            # Of what is left when that which all classes share is taken out.
            strength = (np.trace(turned) - turned.sum() / classes) / max(classes - 1, 1)
            turned = (turned + strength * np.eye(classes)) / 2
            intercept = intercept / 2
        result = weights @ turned
    return result - result.mean(axis=1, keepdims=True), intercept - intercept.mean()
