"""Symmetric integer matrices as packed upper triangles: ``_native/triangle.c``.

Entry (i, j), i <= j, of a matrix of dimension d lies at ``start(i, d) + j`` with
``start(i, d) = i*d - i*(i+1)/2``. This takes half the memory of a square, and is one contiguous
vector to add and to send.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle._native.cores import kernel_threads

Integers = NDArray[np.int64]
Packed = NDArray[np.signedinteger[Any]]
MAX_INT32 = (1 << 31) - 256
"""The largest entry of a diagonal whose gram is int32; see `Layout.most_samples`."""
_add_runs = Kernel(
    "add_runs",
    "target i4|i8[packed(target_dim)]!; target_dim; source i4|i8[packed(dim)]; dim",
    "positions i8[dim] <target_dim; run_of i8[dim] <runs; run_ends i8[runs] <dim + 1; runs; sign",
    pieces="dim",
)
_take = Kernel(
    "take",
    "source i4|i8[packed(source_dim)]; source_dim; keep i8[dim] <source_dim; dim",
    "target =source[packed(dim)]!",
    pieces="dim",
)
_multiply_real, _multiply_whole = (
    Kernel(
        f"multiply_{right}",
        f"gram {types}[packed(dim)]; dim; right {right}[width, dim]; width",
        f"sums {result}[shares, width, dim]!; shares",
        pieces="shares",
    )
    for types, right, result in (("f4|i4|i8", "f8", "f8"), ("i4|i8", "i4", "i8"))
)
_gather_columns = Kernel(
    "gather_columns",
    "gram i4|i8[packed(dim)]; dim; chosen i8[count] <dim; count; columns i8[dim, count]!",
    pieces="dim",
)


def start(row: Any, dim: int) -> Any:
    """Where entry (row, 0) would lie; add the column, which is >= row."""
    return row * dim - row * (row + 1) // 2


def packed_size(dim: int) -> int:
    """Number of entries of the packed triangle of a ``dim`` x ``dim`` matrix."""
    return dim * (dim + 1) // 2


def entry_type(diagonal: NDArray[np.integer[Any]]) -> type[np.signedinteger[Any]]:
    """The type of a gram with this diagonal, whose largest entry bounds all others."""
    return np.int32 if int(diagonal.max(initial=0)) <= MAX_INT32 else np.int64


def diagonal(packed: Packed, dim: int) -> Integers:
    """The diagonal, int64, (dim,)."""
    rows = np.arange(dim)
    return packed[start(rows, dim) + rows].astype(np.int64)


def add_spread(
    target: Packed, target_dim: int, source: Packed, positions: Integers, sign: int
) -> None:
    """``target[positions_i, positions_j] += sign * source[i, j]`` for ascending positions."""
    # Neighbours mostly stay neighbours, so whole runs of columns are added at a time.
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    run_of = np.searchsorted(breaks, np.arange(len(positions)), side="right")
    run_ends = np.append(breaks, len(positions))
    _add_runs(target, target_dim, source, positions, run_of, run_ends, sign)


def take(source: Packed, source_dim: int, keep: Integers) -> Packed:
    """The triangle of the rows ``keep``, ascending, alone."""
    target = np.empty(packed_size(len(keep)), source.dtype)
    _take(source, source_dim, keep, target)
    return target


def to_square(packed: Packed, dim: int) -> Integers:
    """The whole symmetric matrix, int64, (dim, dim): for small dimensions and tests."""
    square = np.empty((dim, dim), np.int64)
    rows, columns = np.triu_indices(dim)
    square[rows, columns] = square[columns, rows] = packed
    return square


def multiply(packed: NDArray[Any], dim: int, right: NDArray[Any]) -> NDArray[Any]:
    """``matrix @ right``, (dim, width): float64, or int64 (modulo 2**64) for int32 ``right``.

    Every thread keeps a sum of its own: integers are exact for any number of threads.
    """
    whole = right.dtype == np.int32
    shape = kernel_threads(), right.shape[1], dim
    partial = np.zeros(shape, np.int64 if whole else np.float64)
    kernel = _multiply_whole if whole else _multiply_real
    kernel(packed, right.T, partial)
    return np.ascontiguousarray(partial.sum(axis=0).T)


def gather_columns(packed: Packed, dim: int, chosen: Integers) -> Integers:
    """Columns of the symmetric matrix, int64, (dim, chosen)."""
    columns = np.empty((dim, len(chosen)), np.int64)
    _gather_columns(packed, chosen, columns)
    return columns
