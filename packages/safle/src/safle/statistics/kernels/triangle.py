"""Symmetric integer matrices as packed upper triangles.

Entry (i, j), i <= j, of a matrix of dimension d lies at ``start(i, d) + j`` with
``start(i, d) = i*d - i*(i+1)/2``. Half the memory of a square, one contiguous
vector to add and to send.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray


@njit(cache=True, nogil=True, inline="always")
def start(row, dim):  # type: ignore[no-untyped-def]
    """Where entry (row, 0) would lie; add the column, which is >= row."""
    return row * dim - row * (row + 1) // 2


NARROW = (1 << 31) - 256
"""The largest square sum whose gram is int32. A file states a count as up to 255 and the rest."""


def entry_type(diagonal: NDArray[np.integer[Any]]) -> type[np.signedinteger[Any]]:
    """The type of a gram with this diagonal: no entry is larger than the largest of it."""
    return np.int32 if int(diagonal.max(initial=0)) <= NARROW else np.int64


def narrow(packed: NDArray[np.signedinteger[Any]], dim: int) -> NDArray[np.signedinteger[Any]]:
    """The same gram in the narrowest integers that hold it."""
    return packed.astype(entry_type(diagonal(packed, dim)), copy=False)


def packed_size(dim: int) -> int:
    """Number of entries of the packed triangle of a ``dim`` x ``dim`` matrix."""
    return dim * (dim + 1) // 2


@njit(cache=True, nogil=True)
def _add_run(target, at, source, first, size, sign):  # type: ignore[no-untyped-def]
    # Unsigned places need no sign check, so the loop is vectorised.
    at, first = np.uint64(at), np.uint64(first)
    for k in range(np.uint64(size)):
        target[at + k] += sign * source[first + k]


@njit(cache=True, nogil=True, parallel=True)
def _add_runs(target, target_dim, source, positions, run_of, run_ends, sign):  # type: ignore[no-untyped-def]
    dim = positions.shape[0]
    for index in prange(dim):
        row = np.int64(index)
        origin = start(row, dim)
        base = start(positions[row], target_dim)
        column = row
        for run in range(run_of[row], len(run_ends)):
            size = run_ends[run] - column
            at = base + positions[column]
            _add_run(target, at, source, origin + column, size, target.dtype.type(sign))
            column = run_ends[run]


def add_spread(
    target: NDArray[np.integer],
    target_dim: int,
    source: NDArray[np.integer],
    positions: NDArray[np.int64],
    sign: int,
) -> None:
    """``target[positions_i, positions_j] += sign * source[i, j]`` for ascending positions.

    Neighbours mostly stay neighbours, so whole runs of columns are added at a time.
    """
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    run_of = np.searchsorted(breaks, np.arange(len(positions)), side="right")
    run_ends = np.append(breaks, len(positions))
    _add_runs(target, target_dim, source, positions, run_of, run_ends, sign)


@njit(cache=True, nogil=True, parallel=True)
def add_tile(
    packed: NDArray[np.int64], dim: int, top: int, left: int, tile: NDArray[np.floating]
) -> None:
    """``packed[top + i, left + j] += tile[i, j]``, integers all, where that is in the triangle."""
    for index in prange(tile.shape[0]):
        row = np.int64(index)
        skipped = max(0, top + row - left)
        values = tile[row, skipped:]
        base = start(top + row, dim) + left + skipped
        target = packed[base : base + len(values)]
        for k in range(len(values)):
            target[k] += np.int64(values[k])


@njit(cache=True, nogil=True, parallel=True)
def take(
    source: NDArray[np.integer],
    source_dim: int,
    keep: NDArray[np.int64],
    target: NDArray[np.integer],
) -> None:
    """``target[i, j] = source[keep_i, keep_j]`` for ascending ``keep``."""
    dim = keep.shape[0]
    for index in prange(dim):
        row = np.int64(index)
        origin = start(keep[row], source_dim)
        base = start(row, dim)
        for column in range(row, dim):
            target[base + column] = source[origin + keep[column]]


@njit(cache=True, nogil=True)
def diagonal(packed: NDArray[np.integer], dim: int) -> NDArray[np.int64]:
    """The diagonal, int64, (dim,)."""
    result = np.empty(dim, np.int64)
    for row in range(dim):
        result[row] = packed[start(row, dim) + row]
    return result


@njit(cache=True, nogil=True)
def to_square(packed: NDArray[np.integer], dim: int) -> NDArray[np.int64]:
    """The whole symmetric matrix, int64, (dim, dim): for small dimensions and tests."""
    square = np.empty((dim, dim), np.int64)
    for row in range(dim):
        origin = start(row, dim)
        for column in range(row, dim):
            square[row, column] = packed[origin + column]
            square[column, row] = packed[origin + column]
    return square


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _multiply_row(packed, dim, row, last, right, sums):  # type: ignore[no-untyped-def]
    """Entries (row, column) with row <= column < last, and their mirror images."""
    origin = start(row, dim)
    for k in range(right.shape[0]):
        left = right[k, row]
        sums[k, row] += packed[origin + row] * left
        for column in range(row + 1, last):
            sums[k, row] += packed[origin + column] * right[k, column]
            sums[k, column] += packed[origin + column] * left


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _multiply_rows(a, b, c, d, row, low, right, sums):  # type: ignore[no-untyped-def]
    """Four rows from ``row`` on, their columns from ``low`` on, and their mirror images.

    Four at once: what is read and written beside the entries serves eight multiplications.
    """
    for k in range(right.shape[0]):
        left_a, left_b, left_c, left_d = right[k, row : row + 4]
        others, images = right[k, low : low + len(a)], sums[k, low : low + len(a)]
        sum_a, sum_b, sum_c, sum_d = sums[k, row : row + 4]
        for j in range(len(a)):
            other = others[j]
            sum_a += a[j] * other
            sum_b += b[j] * other
            sum_c += c[j] * other
            sum_d += d[j] * other
            images[j] += a[j] * left_a + b[j] * left_b + c[j] * left_c + d[j] * left_d
        sums[k, row], sums[k, row + 1] = sum_a, sum_b
        sums[k, row + 2], sums[k, row + 3] = sum_c, sum_d


@njit(cache=True, nogil=True, parallel=True)
def _multiply(packed, dim, right, partial):  # type: ignore[no-untyped-def]
    threads, block = partial.shape[0], 1024
    for index in prange(threads):
        thread = np.int64(index)
        sums = partial[thread]
        for first in range(0, dim, block):
            last = min(first + block, dim)
            for row in range(4 * thread, last, 4 * threads):
                low = first
                if row >= first:
                    low = min(row + 4, last)
                    for near in range(row, low):
                        _multiply_row(packed, dim, near, low, right, sums)
                if low == last:
                    continue
                a, b = start(row, dim), start(row + 1, dim)
                c, d = start(row + 2, dim), start(row + 3, dim)
                _multiply_rows(
                    packed[a + low : a + last],
                    packed[b + low : b + last],
                    packed[c + low : c + last],
                    packed[d + low : d + last],
                    row,
                    low,
                    right,
                    sums,
                )


def multiply(
    packed: NDArray[Any], dim: int, right: NDArray[Any], *, threads: int | None = None
) -> NDArray[Any]:
    """``matrix @ right``, (dim, width): float64, or int64 (modulo 2**64) for int32 ``right``.

    Every thread keeps a sum of its own. In integers the result is exact for any number
    of threads: addition does not care about the order in which they meet.
    """
    result = np.int64 if right.dtype == np.int32 else np.float64
    partial = np.zeros((threads or get_num_threads(), right.shape[1], dim), result)
    _multiply(packed, dim, np.ascontiguousarray(right.T), partial)
    return np.ascontiguousarray(partial.sum(axis=0).T)
