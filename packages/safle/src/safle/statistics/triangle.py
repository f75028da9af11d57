"""Symmetric integer matrices as packed upper triangles: ``_native/triangle.c``, ``check.c``.

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

Integers = NDArray[np.int64]
Packed = NDArray[np.signedinteger[Any]]
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
_gather_columns = Kernel(
    "gather_columns",
    "gram i4|i8[packed(dim)]",
    "dim",
    "chosen i8[count] <dim",
    "count",
    "columns i8[dim, count]!",
    pieces="dim",
)
_find_broken_pair = Kernel(
    "find_broken_pair",
    "offsets i8[experts + 1] <dim + 1",
    "experts",
    "dim",
    "gram i4|i8[packed(dim)]",
    "diagonal i8[dim]",
    "found i8[experts, 2]!",
    "column_sums i8[offsets[-1]]~",
    pieces="experts",
)
_find_impossible = Kernel(
    "find_impossible",
    "gram i4|i8[packed(dim)]",
    "dim",
    "first_column",
    "low i8[dim]",
    "high i8[dim]",
    "total i8[dim]",
    "power i8[dim]",
    "n",
    "narrow",
    "found i8[dim]!",
    pieces="dim",
)


def start(row: Any, dim: int) -> Any:
    """Where entry (row, 0) would lie; add the column, which is >= row."""
    return row * dim - row * (row + 1) // 2


def entry_type(diagonal: NDArray[np.integer[Any]]) -> type[np.signedinteger[Any]]:
    """The type of a gram with this diagonal: no entry is larger than the largest of it."""
    return np.int32 if int(diagonal.max(initial=0)) <= NARROW else np.int64


def narrow(packed: Packed, dim: int) -> Packed:
    """The same gram in the narrowest integers that hold it."""
    return packed.astype(entry_type(diagonal(packed, dim)), copy=False)


def packed_size(dim: int) -> int:
    """Number of entries of the packed triangle of a ``dim`` x ``dim`` matrix."""
    return dim * (dim + 1) // 2


def add_spread(
    target: Packed,
    target_dim: int,
    source: Packed,
    positions: Integers,
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
    source: Packed,
    source_dim: int,
    keep: Integers,
    target: Packed,
) -> None:
    """``target[i, j] = source[keep_i, keep_j]`` for ascending ``keep``."""
    _take(source, source_dim, keep, target, nanoseconds=len(target))


def diagonal(packed: Packed, dim: int) -> Integers:
    """The diagonal, int64, (dim,)."""
    rows = np.arange(dim)
    return packed[start(rows, dim) + rows].astype(np.int64)


def to_square(packed: Packed, dim: int) -> Integers:
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


def gather_columns(packed: Packed, dim: int, chosen: Integers) -> Integers:
    """Columns of the symmetric matrix, int64, (dim, chosen)."""
    columns = np.empty((dim, len(chosen)), np.int64)
    _gather_columns(packed, chosen, columns, nanoseconds=4 * columns.size)
    return columns


def find_broken_pair(
    offsets: Integers,
    gram: Packed,
    diagonal: Integers,
) -> tuple[int, int]:
    """First (row, column) where a block of two experts does not add up."""
    found = np.full((len(offsets) - 1, 2), -1, np.int64)
    _find_broken_pair(offsets, gram, diagonal, found, nanoseconds=len(gram))
    broken = np.flatnonzero(found[:, 0] >= 0)
    row, column = found[broken[0]].tolist() if len(broken) else (-1, -1)
    return row, column


def find_impossible(
    gram: Packed,
    first: int,
    low: Integers,
    high: Integers,
    total: Integers,
    power: Integers,
    samples: int,
) -> tuple[int, int]:
    """First (row, column) with column >= ``first`` that no samples have, exactly.

    ``(x - l)(y - m) >= 0`` and its three kin, summed over the samples, and Cauchy's and Schwarz's
    inequality. ``power`` is the diagonal, and not negative.
    """
    found = np.full(len(low), -1, np.int64)
    reach = int(max(np.abs(low).max(initial=1), np.abs(high).max(initial=1)))
    # Such sums have an entry and three products, which then fit 64 bits.
    narrow = 4 * samples * reach**2 < 1 << 62 and int(power.max(initial=0)) < 1 << 62
    _find_impossible(
        gram, first, low, high, total, power, samples, int(narrow), found,
        nanoseconds=3 * len(gram),
    )  # fmt: skip
    rows = np.flatnonzero(found >= 0)
    return (int(rows[0]), int(found[rows[0]])) if len(rows) else (-1, -1)
