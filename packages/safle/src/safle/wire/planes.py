"""Integer arrays as byte planes, as few as their values need: all lowest bytes first, then others.

Signed values become unsigned before (0, -1, 1, -2 -> 0, 1, 2, 3). High planes are mostly zero
and compress to nothing, so no value needs an integer type of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

VALUES_AT_A_TIME = 1 << 15
"""Values converted at a time: their copies stay in the cache, and take little memory."""
MAX_PLANES = 8


def count_planes(values: NDArray[np.integer[Any]]) -> int:
    """Bytes that each value takes once it is unsigned, 1 to 8.

    >>> count_planes(np.array([127, -128])), count_planes(np.array([128]))
    (1, 2)
    """
    if not values.size:
        return 1
    largest = max(int(values.max()), -int(values.min()) - 1)
    return max(1, ((2 * largest + 1).bit_length() + 7) // 8)


def _integer_type(planes: int) -> type[np.signedinteger[Any]]:
    """The narrowest, and so fastest, integer type of at least ``planes`` bytes."""
    return np.int16 if planes <= 2 else np.int32 if planes <= 4 else np.int64


def to_planes(values: NDArray[np.integer[Any]], planes: int) -> bytes:
    """``planes`` bytes of every value, made unsigned, plane after plane."""
    flat = values.reshape(-1)
    dtype = np.dtype(_integer_type(planes))
    result = np.empty((planes, len(flat)), np.uint8)
    for first in range(0, len(flat), VALUES_AT_A_TIME):
        wide = flat[first : first + VALUES_AT_A_TIME].astype(dtype)
        unsigned = (wide << 1) ^ (wide >> 8 * dtype.itemsize - 1)
        split = unsigned.astype(dtype.newbyteorder("<")).view(np.uint8).reshape(-1, dtype.itemsize)
        result[:, first : first + VALUES_AT_A_TIME] = split[:, :planes].T
    return result.tobytes()


def from_planes(data: bytes, planes: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The inverse of `to_planes`, int64, of ``shape``."""
    result = np.empty(int(np.prod(shape, dtype=np.int64)), np.int64)
    split = np.frombuffer(data, np.uint8).reshape(planes, len(result))
    for first in range(0, len(result), VALUES_AT_A_TIME):
        part = split[:, first : first + VALUES_AT_A_TIME]
        unsigned = part[0].astype(np.uint64)
        for plane in range(1, planes):
            unsigned |= part[plane].astype(np.uint64) << np.uint64(8 * plane)
        signs = -(unsigned & np.uint64(1)).view(np.int64)
        result[first : first + VALUES_AT_A_TIME] = (unsigned >> np.uint64(1)).view(np.int64) ^ signs
    return result.reshape(shape)
