"""Symmetric integer matrices as packed upper triangles: ``_native/triangle.c``.

Entry (i, j), i <= j, of a matrix of dimension d lies at ``start(i, d) + j`` with
``start(i, d) = i*d - i*(i+1)/2``. Half the memory of a square, one contiguous vector to add and
to send.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle._native import threads as all_threads

NARROW = (1 << 31) - 256
"""The largest square sum whose gram is int32. A file states a count as up to 255 and the rest."""
_add_runs = Kernel(
    "add_runs",
    "target i4|i8[packed(target_dim)]!",
    "target_dim",
    "source i4|i8[packed(dim)]",
    "dim",
    "positions i8[dim] <target_dim",
    "run_of i8[dim] <runs",
    "run_ends i8[runs] <dim + 1",
    "runs",
    "sign",
    pieces="dim",
)
_take = Kernel(
    "take",
    "source i4|i8[packed(source_dim)]",
    "source_dim",
    "keep i8[dim] <source_dim",
    "dim",
    "target i4|i8[packed(dim)]!",
    pieces="dim",
)
_multiply_real, _multiply_whole = (
    Kernel(
        f"multiply_{right}",
        f"gram {types}[packed(dim)]",
        "dim",
        f"right {right}[width, dim]",
        "width",
        f"sums {result}[shares, width, dim]!",
        "shares",
        pieces="shares",
    )
    for types, right, result in (("f4|i4|i8", "f8", "f8"), ("i4|i8", "i4", "i8"))
)


def start(row: Any, dim: int) -> Any:
    """Where entry (row, 0) would lie; add the column, which is >= row."""
    return row * dim - row * (row + 1) // 2


def entry_type(diagonal: NDArray[np.integer[Any]]) -> type[np.signedinteger[Any]]:
    """The type of a gram with this diagonal: no entry is larger than the largest of it."""
    return np.int32 if int(diagonal.max(initial=0)) <= NARROW else np.int64


def narrow(packed: NDArray[np.signedinteger[Any]], dim: int) -> NDArray[np.signedinteger[Any]]:
    """The same gram in the narrowest integers that hold it."""
    return packed.astype(entry_type(diagonal(packed, dim)), copy=False)


def packed_size(dim: int) -> int:
    """Number of entries of the packed triangle of a ``dim`` x ``dim`` matrix."""
    return dim * (dim + 1) // 2


def add_spread(
    target: NDArray[np.signedinteger[Any]],
    target_dim: int,
    source: NDArray[np.signedinteger[Any]],
    positions: NDArray[np.int64],
    sign: int,
) -> None:
    """``target[positions_i, positions_j] += sign * source[i, j]`` for ascending positions.

    Neighbours mostly stay neighbours, so whole runs of columns are added at a time.
    """
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    run_of = np.searchsorted(breaks, np.arange(len(positions)), side="right")
    run_ends = np.append(breaks, len(positions))
    _add_runs(
        target, target_dim, source, positions, run_of, run_ends, sign, nanoseconds=len(source) / 2
    )


def take(
    source: NDArray[np.signedinteger[Any]],
    source_dim: int,
    keep: NDArray[np.int64],
    target: NDArray[np.signedinteger[Any]],
) -> None:
    """``target[i, j] = source[keep_i, keep_j]`` for ascending ``keep``."""
    _take(source, source_dim, keep, target, nanoseconds=len(target))


def diagonal(packed: NDArray[np.signedinteger[Any]], dim: int) -> NDArray[np.int64]:
    """The diagonal, int64, (dim,)."""
    rows = np.arange(dim)
    return packed[start(rows, dim) + rows].astype(np.int64)


def to_square(packed: NDArray[np.signedinteger[Any]], dim: int) -> NDArray[np.int64]:
    """The whole symmetric matrix, int64, (dim, dim): for small dimensions and tests."""
    square = np.empty((dim, dim), np.int64)
    for row in range(dim):
        entries = packed[start(row, dim) + row : start(row, dim) + dim]
        square[row, row:] = entries
        square[row:, row] = entries
    return square


def multiply(
    packed: NDArray[Any], dim: int, right: NDArray[Any], *, threads: int | None = None
) -> NDArray[Any]:
    """``matrix @ right``, (dim, width): float64, or int64 (modulo 2**64) for int32 ``right``.

    Every thread keeps a sum of its own. In integers the result is exact for any number
    of threads: addition does not care about the order in which they meet.
    """
    whole = right.dtype == np.int32
    shape = threads or all_threads(), right.shape[1], dim
    partial = np.zeros(shape, np.int64 if whole else np.float64)
    kernel = _multiply_whole if whole else _multiply_real
    work = len(packed) * right.shape[1] / 4
    kernel(packed, right.T, partial, nanoseconds=work)
    return np.ascontiguousarray(partial.sum(axis=0).T)
