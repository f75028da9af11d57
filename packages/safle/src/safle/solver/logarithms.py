"""Logarithms that are the same on any machine: C libraries differ in the last bit."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray


def log_shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """``log(n_c / n)``, correctly rounded, of counts n_c that add up to n.

    >>> log_shares(np.array([1, 1])).tolist()
    [-0.6931471805599453, -0.6931471805599453]
    """
    whole = Decimal(int(counts.sum())).ln()
    return np.array([float(Decimal(count).ln() - whole) for count in counts.tolist()])


def log_product(values: NDArray[np.float64]) -> float:
    """The logarithm of the product of positive ``values``, multiplied in their order.

    >>> round(log_product(np.full(2_000, 4.0)) / 2_000, 12)
    1.38629436112
    """
    product, exponent = 1.0, 0
    for value in values.tolist():
        product, more = math.frexp(product * value)
        exponent += more
    return float(Decimal(product).ln() + exponent * Decimal(2).ln())
