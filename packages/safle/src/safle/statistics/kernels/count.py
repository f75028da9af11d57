"""Co-occurrence counts of codes, exact for any number of threads: ``_native/count.c``.

Row (a, v) of the gram is the sum of the one-hot rows of the samples whose expert a has value v.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.errors import InvalidInput
from safle.statistics.kernels.triangle import start

WIDTH = 256
"""Columns that `count_block_pairs` counts at a time."""
_SYMBOLS = ("symbols u1|u2[samples, experts]", "samples", "experts", "bases i8[experts + 1]")
_TILES = "(experts + 63) // 64"
_to_columns = Kernel(
    "to_columns",
    *_SYMBOLS,
    "ranks i4[bases[-1]]",
    "columns i4[experts, samples]!",
    "wrong i8[1]!",
    pieces=_TILES,
)
_mark_seen = Kernel("mark_seen", *_SYMBOLS, "seen u1[bases[-1]]!", "wrong i8[1]!", pieces=_TILES)
_group_samples = Kernel(
    "group_samples",
    "columns i4[experts, samples] <offsets[-1]",
    "samples",
    "offsets i8[experts + 1]",
    "order u4[experts, samples]!",
    "starts i8[offsets[-1]]!",
    "cursor i8[offsets[-1] + experts]!",
    pieces="experts",
)
_GROUPED = (
    "offsets i8[experts + 1]",
    "experts",
    "order u4[experts, samples] <samples",
    "starts i8[offsets[-1]] <samples + 1",
)
_GRAM = ("dim", "gram i4|i8[packed(dim)]!")
_count_block_pairs = Kernel(
    "count_block_pairs",
    "columns i4[experts, samples] <offsets[-1]",
    "samples",
    *_GROUPED,
    *_GRAM,
    "rows u1[128 * samples]~",
    pieces=f"((offsets[-1] + {WIDTH - 1}) // {WIDTH} + 1) // 2",
)
_count_single_pairs = Kernel(
    "count_single_pairs",
    "by_sample i4[samples, experts] <offsets[-1]",
    "samples",
    *_GROUPED,
    *_GRAM,
    pieces="(experts + 1) // 2",
)
_count_mixed = Kernel(
    "count_mixed",
    *_GROUPED,
    "samples",
    "dense i2[samples, width]",
    "width",
    *_GRAM,
    "sums i4[width]~",
    pieces="experts",
)
_count_labels = Kernel(
    "count_labels",
    "columns i4[experts, samples] <codes",
    "samples",
    "labels i8[samples] <classes",
    "classes",
    "cross i8[codes, classes]!",
    pieces="experts",
)
_sum_by_class = Kernel(
    "sum_by_class",
    "dense i2[samples, dim]",
    "dim",
    "order i8[samples] <samples",
    "ends i8[classes] <samples + 1",
    "classes",
    "cross i8[dim, classes]!",
    pieces="(dim + 511) // 512",
)


def to_columns(
    symbols: NDArray[np.unsignedinteger[Any]],
    bases: NDArray[np.int64],
    ranks: NDArray[np.int32],
    columns: NDArray[np.int32],
) -> None:
    """Transpose and renumber: ``columns[e, s] = ranks[bases[e] + symbols[s, e]]``.

    Parameters
    ----------
    symbols : uint8 or uint16, (samples, experts)
    bases : int64, (experts + 1,), first code of each expert, and the end
    ranks : int32, (code_count,), position of a code among the seen ones
    columns : int32, (experts, samples), written
    """
    wrong = np.zeros(1, np.int64)
    _to_columns(symbols, bases, ranks, columns, wrong, nanoseconds=symbols.size)
    _require_symbols(wrong)


def mark_seen(
    symbols: NDArray[np.unsignedinteger[Any]], bases: NDArray[np.int64], seen: NDArray[np.bool_]
) -> None:
    """Set ``seen[bases[e] + symbols[s, e]]`` for every sample and expert."""
    wrong = np.zeros(1, np.int64)
    _mark_seen(symbols, bases, seen.view(np.uint8), wrong, nanoseconds=symbols.size)
    _require_symbols(wrong)


def _require_symbols(wrong: NDArray[np.int64]) -> None:
    if wrong[0]:
        raise InvalidInput("a symbol is larger than its expert has: codes of another encoder")


def group_samples(
    columns: NDArray[np.int32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Sort each expert's samples by column: their order, and where each column begins in it.

    ``order[e, starts[c] : starts[c + 1]]`` are the samples in column c of expert e, where the last
    column of an expert ends at the sample count.

    Parameters
    ----------
    columns : int32, (experts, samples), each within its expert
    offsets : int64, (experts + 1,), first column of each expert, and the end
    """
    # Within its own expert: the kernel counts into that expert's stretch alone.
    if columns.size and (
        np.any(columns.min(axis=1) < offsets[:-1]) or np.any(columns.max(axis=1) >= offsets[1:])
    ):
        raise IndexError("a column is not its expert's")
    order = np.empty(columns.shape, np.uint32)
    starts = np.empty(offsets[-1], np.int64)
    cursor = np.empty(offsets[-1] + len(columns), np.int64)
    _group_samples(columns, offsets, order, starts, cursor, nanoseconds=4 * columns.size)
    return order, starts


def count_block_pairs(
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.signedinteger[Any]],
) -> None:
    """Add all pairs of different experts to the packed ``gram`` of dimension ``dim``."""
    _count_block_pairs(columns, offsets, order, starts, dim, gram)


def count_single_pairs(
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.signedinteger[Any]],
) -> None:
    """The same sums as `count_block_pairs`, one increment a pair: for wide experts."""
    _count_single_pairs(columns.T, offsets, order, starts, dim, gram)


def count_diagonal(
    columns: NDArray[np.int32], dim: int, gram: NDArray[np.signedinteger[Any]]
) -> None:
    """Add how often each code occurs to the diagonal of the packed ``gram``."""
    found = np.bincount(columns.reshape(-1))
    codes = np.arange(len(found))
    gram[start(codes, dim) + codes] += found.astype(gram.dtype)


def count_labels(
    columns: NDArray[np.int32], labels: NDArray[np.int64], cross: NDArray[np.int64]
) -> None:
    """Add how often each code occurs with each label to ``cross``, (codes, classes)."""
    _count_labels(columns, labels, cross, nanoseconds=columns.size)


def count_mixed(
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    dense: NDArray[np.int16],
    dim: int,
    gram: NDArray[np.signedinteger[Any]],
) -> None:
    """Add the code x dense block: row (a, v) gets the dense rows of its samples.

    At most 65,536 samples per call, so that sums of int16 fit 32 bits.
    """
    _count_mixed(offsets, order, starts, dense, dim, gram)


def sum_by_class(
    dense: NDArray[np.int16],
    order: NDArray[np.int64],
    ends: NDArray[np.int64],
    cross: NDArray[np.int64],
) -> None:
    """``cross[:, c] +=`` the sum of the rows ``order[ends[c - 1] : ends[c]]`` of ``dense``."""
    _sum_by_class(dense, order, ends, cross, nanoseconds=dense.size / 4)
