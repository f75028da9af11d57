"""Heads: what to make of the solved system. Both are exact functions of the sums.

- least squares: ``W = inverse(C + ridge) M``, no intercept;
- discriminant (LDA with the regularised within-class scatter ``C + ridge - M inverse(N)
  M'``): by Woodbury, with ``B = inverse(C + ridge) M`` and N the class counts,
  ``W = n B inverse(I - inverse(N) M'B) inverse(N)`` and
  ``intercept_c = log(n_c / n) - mean_c' W_c / 2``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from safle.errors import SolveError

HEADS = ("least-squares", "discriminant")
Matrix = NDArray[np.float64]


def discriminant(
    weights: Matrix, target: Matrix, class_counts: NDArray[np.int64]
) -> tuple[Matrix, Matrix]:
    """Weights, (dim, class_count), and intercept, (class_count,), of the LDA head.

    Parameters
    ----------
    weights : least-squares weights B, (dim, class_count)
    target : real cross matrix M, (dim, class_count)
    """
    counts = class_counts.astype(np.float64)
    n = counts.sum()
    # One thread: these products are small, and their order of summation stays fixed.
    with threadpool_limits(1):
        inner = np.eye(len(counts)) - (target.T @ weights) / counts[:, None]
        try:
            correction = np.linalg.solve(inner, np.diag(n / counts))
        except np.linalg.LinAlgError as error:
            raise SolveError("the within-class scatter is singular; use a larger ridge") from error
        result = weights @ correction
        intercept = -0.5 * np.einsum("ik,ik->k", target / counts, result)
    return result, intercept + np.log(counts / n)
