"""Small sums in a fixed order: what linear heads are made of, the same bits on any machine.

Libraries add in orders of their own, and C libraries differ in the last bit of a logarithm.
Matrices of classes are small, so plain loops do.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray


@njit(cache=True, nogil=True, parallel=True)
def multiply_in_order(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``left @ right``, every entry summed in one order."""
    result = np.zeros((left.shape[0], right.shape[1]))
    for index in prange(left.shape[0]):
        row = result[np.int64(index)]
        for j in range(left.shape[1]):
            factor = left[np.int64(index), j]
            for k in range(len(row)):
                row[k] += factor * right[j, k]
    return result


@njit(cache=True, nogil=True, parallel=True)
def invert_in_order(matrix: NDArray[np.float64], least: NDArray[np.float64]) -> bool:
    """Invert a positive definite matrix in place.

    False, and nothing of use in ``matrix``, if pivot k is not above ``least[k]``.
    """
    size = len(matrix)
    for k in range(size):
        if not matrix[k, k] > least[k]:
            return False
        inverse = 1.0 / matrix[k, k]
        matrix[k, k] = 1.0
        for j in range(size):
            matrix[k, j] *= inverse
        for index in prange(size):
            row = matrix[np.int64(index)]
            if np.int64(index) != k:
                factor = row[k]
                row[k] = 0.0
                for j in range(size):
                    row[j] -= factor * matrix[k, j]
    return True


@njit(cache=True, nogil=True)
def factor_in_order(matrix: NDArray[np.float64]) -> bool:
    """``matrix = U' U``: its upper triangle becomes U; False if it is not positive definite."""
    size = len(matrix)
    for i in range(size):
        row = matrix[i, i:]
        for k in range(i):
            above = matrix[k, i:]
            for j in range(size - i):
                row[j] -= above[0] * above[j]
        if not row[0] > 0:
            return False
        pivot = np.sqrt(row[0])
        for j in range(size - i):
            row[j] /= pivot
    return True


def log_shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """``log(n_c / n)``, correctly rounded, of counts n_c that add up to n.

    >>> log_shares(np.array([1, 1])).tolist()
    [-0.6931471805599453, -0.6931471805599453]
    """
    whole = Decimal(int(counts.sum())).ln()
    return np.array([float(Decimal(count).ln() - whole) for count in counts.tolist()])
