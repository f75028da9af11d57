"""Integers as byte planes: all lowest bytes, then all next ones, as few as are needed.

Signed values are folded first (0, -1, 1, -2 -> 0, 1, 2, 3). High planes are mostly zero
and compress to nothing, so the smallest integer type is found for every value at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

AT_A_TIME = 1 << 15
"""Values folded at a time: their copies stay in the cache, and take no memory to speak of."""


def plane_count(values: NDArray[np.integer[Any]]) -> int:
    """Bytes a folded value takes, 1 to 8."""
    if not values.size:
        return 1
    low, high = int(values.min()), int(values.max())
    return max(1, ((2 * max(high, -low - 1) + 1).bit_length() + 7) // 8)


def to_planes(values: NDArray[np.integer[Any]], planes: int) -> bytes:
    """``planes`` bytes of every folded value, plane after plane."""
    flat = values.reshape(-1)
    result = np.empty((planes, len(flat)), np.uint8)
    for first in range(0, len(flat), AT_A_TIME):
        wide = flat[first : first + AT_A_TIME].astype(np.int64)
        folded = ((wide << 1) ^ (wide >> 63)).astype("<i8").view(np.uint8).reshape(-1, 8)
        result[:, first : first + AT_A_TIME] = folded[:, :planes].T
    return result.tobytes()


def from_planes(data: bytes, planes: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The inverse of `to_planes`, int64, of ``shape``."""
    result = np.empty(int(np.prod(shape, dtype=np.int64)), np.int64)
    split = np.frombuffer(data, np.uint8).reshape(planes, len(result))
    for first in range(0, len(result), AT_A_TIME):
        part = split[:, first : first + AT_A_TIME]
        folded = part[0].astype(np.uint64)
        for plane in range(1, planes):
            folded |= part[plane].astype(np.uint64) << np.uint64(8 * plane)
        signs = -(folded & np.uint64(1)).view(np.int64)
        result[first : first + AT_A_TIME] = (folded >> np.uint64(1)).view(np.int64) ^ signs
    return result.reshape(shape)
