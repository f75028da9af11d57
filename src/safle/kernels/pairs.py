"""Reordering the free entries of a gram by how large they should be, and packing them.

Entry (i, j) of two experts is expected near ``c_i c_j / n``. Entries of like
expectation are alike, so they are gathered into one stream per *context*
``q(c_i) + q(c_j)``, row by row, and packed several to a byte.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.kernels.triangle import start


@njit(cache=True, nogil=True)
def row_starts(
    kept: NDArray[np.int64],
    experts_of: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    class_count: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each kept row begins in each stream.

    Parameters
    ----------
    kept : int64, (rows,), gram rows that are sent, ascending
    experts_of, classes_of : int64, (rows,), their expert and their class q(c)

    Returns
    -------
    starts : int64, (rows, class_count): place of row r's first entry whose column has
        class q, counted from the beginning of the stream of context classes_of[r] + q
    sizes : int64, (2 * class_count - 1,), entries of each context
    """
    rows = len(kept)
    starts = np.empty((rows, class_count), np.int64)
    sizes = np.zeros(2 * class_count - 1, np.int64)
    after = np.zeros(class_count, np.int64)
    for row in range(rows):
        after[classes_of[row]] += 1
    first = 0
    while first < rows:
        last = first
        while last < rows and experts_of[last] == experts_of[first]:
            after[classes_of[last]] -= 1
            last += 1
        for row in range(first, last):
            for q in range(class_count):
                context = classes_of[row] + q
                starts[row, q] = sizes[context]
                sizes[context] += after[q]
        first = last
    return starts, sizes


@njit(cache=True, nogil=True, parallel=True)
def gather(
    gram: NDArray[np.integer],
    dim: int,
    kept: NDArray[np.int64],
    ends: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    starts: NDArray[np.int64],
    firsts: NDArray[np.int64],
    values: NDArray[np.unsignedinteger],
) -> None:
    """Copy kept entries into their streams.

    Parameters
    ----------
    ends : int64, (rows,), first kept row of the next expert
    firsts : int64, (contexts,), where each context begins in ``values``
    """
    for index in prange(len(kept)):
        row = np.int64(index)
        cursor = starts[row] + firsts[classes_of[row] : classes_of[row] + starts.shape[1]]
        origin = start(kept[row], dim)
        for other in range(ends[row], len(kept)):
            q = classes_of[other]
            values[cursor[q]] = gram[origin + kept[other]]
            cursor[q] += 1


@njit(cache=True, nogil=True, parallel=True)
def scatter(
    gram: NDArray[np.integer],
    dim: int,
    kept: NDArray[np.int64],
    ends: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    starts: NDArray[np.int64],
    firsts: NDArray[np.int64],
    values: NDArray[np.unsignedinteger],
) -> None:
    """The inverse of `gather`: copy the streams back into the gram."""
    for index in prange(len(kept)):
        row = np.int64(index)
        cursor = starts[row] + firsts[classes_of[row] : classes_of[row] + starts.shape[1]]
        origin = start(kept[row], dim)
        for other in range(ends[row], len(kept)):
            q = classes_of[other]
            gram[origin + kept[other]] = values[cursor[q]]
            cursor[q] += 1


@njit(cache=True, nogil=True)
def _complete_rows(expert, dropped, offsets, dim, gram, diagonal):  # type: ignore[no-untyped-def]
    """Fill in the dropped columns, then the dropped row, of one expert's blocks."""
    experts = len(dropped)
    missing = diagonal[: offsets[experts]].copy()
    least = np.int64(0)
    for row in range(offsets[expert], offsets[expert + 1]):
        origin = start(row, dim)
        if row == dropped[expert]:
            continue
        for other in range(expert + 1, experts):
            rest = diagonal[row]
            for column in range(offsets[other], offsets[other + 1]):
                if column != dropped[other]:
                    rest -= gram[origin + column]
            least = min(least, rest)
            gram[origin + dropped[other]] = rest
            for column in range(offsets[other], offsets[other + 1]):
                missing[column] -= gram[origin + column]
    origin = start(dropped[expert], dim)
    for column in range(offsets[expert + 1], offsets[experts]):
        least = min(least, missing[column])
        gram[origin + column] = missing[column]
    return least


@njit(cache=True, nogil=True, parallel=True)
def complete(
    dropped: NDArray[np.int64],
    offsets: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.integer],
    diagonal: NDArray[np.int64],
) -> int:
    """Fill in what the margins determine; returns the least entry so obtained.

    Parameters
    ----------
    dropped : int64, (experts,), the row of each expert that was not sent
    offsets : int64, (experts + 1,), first row of each expert
    diagonal : int64, (dim,)
    """
    experts = len(dropped)
    least = np.zeros(experts, np.int64)
    for index in prange((experts + 1) // 2):
        for side in range(2):
            expert = np.int64(index) if side == 0 else experts - 1 - np.int64(index)
            if side == 1 and expert == np.int64(index):
                continue
            least[expert] = _complete_rows(expert, dropped, offsets, dim, gram, diagonal)
    return least.min()


@njit(cache=True, nogil=True, parallel=True)
def pack(values: NDArray[np.unsignedinteger], per_byte: int, packed: NDArray[np.uint8]) -> None:
    """``per_byte`` values a byte, the first in the lowest bits, each at most its maximum."""
    bits = 8 // per_byte
    most = (1 << bits) - 1
    for index in prange(len(packed)):
        first = np.int64(index) * per_byte
        byte = np.int64(0)
        for k in range(int(min(per_byte, len(values) - first))):
            byte |= min(np.int64(values[first + k]), most) << (bits * k)
        packed[index] = byte


@njit(cache=True, nogil=True, parallel=True)
def unpack(packed: NDArray[np.uint8], per_byte: int, values: NDArray[np.unsignedinteger]) -> None:
    """The inverse of `pack`, for values below their maximum."""
    bits = 8 // per_byte
    most = (1 << bits) - 1
    for index in prange(len(packed)):
        first = np.int64(index) * per_byte
        byte = np.int64(packed[index])
        for k in range(int(min(per_byte, len(values) - first))):
            values[first + k] = (byte >> (bits * k)) & most


@njit(cache=True, nogil=True)
def excess(values: NDArray[np.unsignedinteger], most: int) -> NDArray[np.int64]:
    """``value - most`` of every value that is at least ``most``, in order."""
    found = 0
    for value in values:
        found += value >= most
    result = np.empty(found, np.int64)
    at = 0
    for value in values:
        if value >= most:
            result[at] = np.int64(value) - most
            at += 1
    return result


@njit(cache=True, nogil=True)
def add_excess(
    values: NDArray[np.unsignedinteger], most: int, rest: NDArray[np.int64], first: int
) -> int:
    """Undo `excess` from ``rest[first:]``; returns the position after the last one used.

    Returns -1 if ``rest`` ends too soon.
    """
    at = first
    for index in range(len(values)):
        if values[index] == most:
            if at >= len(rest):
                return -1
            values[index] += rest[at]
            at += 1
    return at
