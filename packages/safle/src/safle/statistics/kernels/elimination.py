"""Which columns are independent: elimination modulo a prime, so that no rounding decides."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

PRIME = (1 << 31) - 1
"""A Mersenne prime: a product of two residues fits 62 bits, and is reduced by a shift."""


@njit(cache=True, nogil=True)
def _inverse(value):  # type: ignore[no-untyped-def]
    result, power, exponent = np.int64(1), value, PRIME - 2
    while exponent > 0:
        if exponent & 1:
            result = result * power % PRIME
        power = power * power % PRIME
        exponent >>= 1
    return result


@njit(cache=True, nogil=True)
def first_independent(gram: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The lexicographically first independent columns of a symmetric matrix, at most ``most``.

    Modulo `PRIME`; ascending, int64. ``gram`` (size, size) is used up.
    """
    size = len(gram)
    chosen = np.empty(min(size, most), np.int64)
    found = 0
    for i in range(size):
        for j in range(i, size):
            gram[i, j] %= PRIME
    for step in range(size):
        if found == len(chosen):
            break
        pivot = gram[step, step]
        if pivot == 0:
            continue
        chosen[found] = step
        found += 1
        row, inverse = gram[step], _inverse(pivot)
        for i in range(step + 1, size):
            factor = PRIME - row[i] * inverse % PRIME
            others, target = row[i:], gram[i, i:]
            for j in range(len(others)):
                value = target[j] + factor * others[j]
                value = (value & PRIME) + (value >> 31)
                target[j] = value - PRIME if value >= PRIME else value
    return chosen[:found]
