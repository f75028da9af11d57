"""Which columns are independent: elimination modulo a prime: ``_native/check.c``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

PRIME = (1 << 31) - 1
"""A Mersenne prime: a product of two residues fits 62 bits, and is reduced by a shift."""
_first_independent = Kernel(
    "first_independent",
    "gram i8[size, size]!",
    "size",
    "limit",
    "chosen i8[limit]!",
    "count i8[1]!",
)


def first_independent(gram: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The lexicographically first independent columns of a symmetric matrix, at most ``most``.

    Modulo `PRIME`, so that no rounding decides; ascending, int64.

    Examples
    --------
    >>> first_independent(np.array([[1, 2, 0], [2, 4, 0], [0, 0, 3]]), 3).tolist()
    [0, 2]
    """
    chosen, count = np.zeros(min(len(gram), most), np.int64), np.zeros(1, np.int64)
    _first_independent(gram % PRIME, chosen, count)
    return chosen[: count[0]]
