"""Sums of classes in one fixed order, so that linear heads have the same bits on any machine.

Weights of least squares lie on a grid that does not depend on the factorisation. BLAS libraries
add in other orders, and C libraries differ in the last bit of a logarithm. Matrices of classes are
small, so plain loops do.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

Matrix = NDArray[np.float64]
_multiply_in_order = Kernel(
    "multiply_in_order",
    "left f8[rows, inner]; right f8[inner, width]; inner; width; result f8[rows, width]!",
    pieces="rows",
)
_invert_in_order = Kernel(
    "invert_in_order", "matrix f8[size, size]!", "size", "smallest f8[size]", "failed i8[1]!"
)
_factor_in_order = Kernel("factor_in_order", "matrix f8[size, size]!", "size", "failed i8[1]!")


def multiply_in_order(left: Matrix, right: Matrix) -> Matrix:
    """``left @ right``, every entry summed in one order."""
    result = np.empty((len(left), right.shape[1]))
    _multiply_in_order(left, right, result)
    return result


def invert_in_order(matrix: Matrix, least: Matrix) -> bool:
    """Invert a positive definite matrix in place.

    Returns False, and leaves ``matrix`` unusable, if a pivot k is not above ``least[k]``.
    """
    failed = np.zeros(1, np.int64)
    _invert_in_order(matrix, least, failed)
    return not failed[0]


def factor_in_order(matrix: Matrix) -> bool:
    """``matrix = U' U``: its upper triangle becomes U; False if it is not positive definite."""
    failed = np.zeros(1, np.int64)
    _factor_in_order(matrix, failed)
    return not failed[0]


def log_shares(counts: NDArray[np.int64]) -> Matrix:
    """``log(n_c / n)``, correctly rounded, of counts n_c that add up to n.

    >>> log_shares(np.array([1, 1])).tolist()
    [-0.6931471805599453, -0.6931471805599453]
    """
    whole = Decimal(int(counts.sum())).ln()
    return np.array([float(Decimal(count).ln() - whole) for count in counts.tolist()])
