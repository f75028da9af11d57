"""Integers as byte planes: all lowest bytes, then all next ones, as few as are needed.

Signed values are folded first (0, -1, 1, -2 -> 0, 1, 2, 3). High planes are mostly zero
and compress to nothing, so the smallest integer type is found for every value at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def plane_count(values: NDArray[np.integer[Any]]) -> int:
    """Bytes a folded value takes, 1 to 8."""
    if not values.size:
        return 1
    low, high = int(values.min()), int(values.max())
    return max(1, ((2 * max(high, -low - 1) + 1).bit_length() + 7) // 8)


def to_planes(values: NDArray[np.integer[Any]], planes: int) -> bytes:
    """``planes`` bytes of every folded value, plane after plane."""
    wide = values.reshape(-1).astype(np.int64)
    folded = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    split = folded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes]
    return np.ascontiguousarray(split.T).tobytes()


def from_planes(data: bytes, planes: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The inverse of `to_planes`, int64, of ``shape``."""
    count = int(np.prod(shape, dtype=np.int64))
    split = np.zeros((count, 8), np.uint8)
    split[:, :planes] = np.frombuffer(data, np.uint8).reshape(planes, count).T
    folded = split.reshape(-1).view("<u8").astype(np.uint64)
    wide = (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)
    return wide.reshape(shape)
