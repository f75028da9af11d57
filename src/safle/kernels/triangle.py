"""Symmetric integer matrices as packed upper triangles.

Entry (i, j), i <= j, of a matrix of dimension d lies at ``start(i, d) + j`` with
``start(i, d) = i*d - i*(i+1)/2``. Half the memory of a square, one contiguous
vector to add and to send.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray


@njit(cache=True, nogil=True, inline="always")
def start(row, dim):  # type: ignore[no-untyped-def]
    """Where entry (row, 0) would lie; add the column, which is >= row."""
    return row * dim - row * (row + 1) // 2


def packed_size(dim: int) -> int:
    """Number of entries of the packed triangle of a ``dim`` x ``dim`` matrix."""
    return dim * (dim + 1) // 2


@njit(cache=True, nogil=True, parallel=True)
def add_spread(
    target: NDArray[np.integer],
    target_dim: int,
    source: NDArray[np.integer],
    positions: NDArray[np.int64],
    sign: int,
) -> None:
    """``target[positions_i, positions_j] += sign * source[i, j]`` for ascending positions."""
    dim = positions.shape[0]
    for index in prange(dim):
        row = np.int64(index)
        origin = start(row, dim)
        base = start(positions[row], target_dim)
        for column in range(row, dim):
            target[base + positions[column]] += sign * source[origin + column]


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


@njit(cache=True, nogil=True, parallel=True)
def multiply_exact(
    packed: NDArray[np.integer],
    dim: int,
    right: NDArray[np.int64],
    threads: int,
) -> NDArray[np.int64]:
    """``matrix @ right`` in int64 (modulo 2**64): exact for any number of threads.

    Every thread keeps a sum of its own; integer addition does not care about the
    order in which they meet. Rows are dealt round robin because they shorten.
    """
    width = right.shape[1]
    partial = np.zeros((threads, dim, width), np.int64)
    for thread in prange(threads):
        mine = partial[thread]
        for row in range(np.int64(thread), dim, threads):
            origin = start(row, dim)
            left = right[row]
            total = mine[row]
            diagonal_entry = np.int64(packed[origin + row])
            for k in range(width):
                total[k] += diagonal_entry * left[k]
            for column in range(row + 1, dim):
                entry = np.int64(packed[origin + column])
                if entry != 0:
                    for k in range(width):
                        total[k] += entry * right[column, k]
                        mine[column, k] += entry * left[k]
    return partial.sum(axis=0)
