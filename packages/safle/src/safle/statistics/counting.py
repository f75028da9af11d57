"""Counting: codes and labels -> sums, added to arrays in place; ``_native/count.c``.

Row (a, v) of the gram is the sum of the one-hot rows of the samples whose expert a has value v.
Sums of integers do not depend on where one batch ends and the next begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.encoders.codes import Codes, Layout
from safle.errors import InvalidInput
from safle.statistics import triangle
from safle.statistics.products import add_products

Integers = NDArray[np.int64]
Packed = NDArray[np.signedinteger[Any]]
SMALLEST_PASS, LARGEST_PASS = 2_048, 8_192
"""Samples counted in one pass over the gram: their one-hot rows for a block of columns
should stay in the L2 cache, and enough of them should meet in a row to pay for it. At most 65,536,
so that sums of int16 fit 32 bits."""
ROWS_WORTH_A_PASS = 128
WIDE_TABLE = 160
"""Mean seen symbols per expert above which single increments beat added rows."""
WIDTH = 256
"""Columns that `_count_block_pairs` counts at a time."""
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


def seen_codes(symbols: NDArray[Any], layout: Layout) -> Integers:
    """Codes that occur in ``symbols``, (samples, experts): int64, ascending."""
    seen = np.zeros(layout.code_count, np.uint8)
    # A class's few samples are counted often: threads that have nothing to do are not woken.
    if layout.experts:
        wrong = np.zeros(1, np.int64)
        _mark_seen(symbols, layout.bases, seen, wrong, nanoseconds=symbols.size)
        _require_symbols(wrong)
    return np.flatnonzero(seen)


def rows_of(symbols: NDArray[Any], layout: Layout, codes: Integers) -> NDArray[np.int32]:
    """Symbols as rows of a gram over ``codes``, int32, (experts, samples)."""
    ranks = np.zeros(layout.code_count, np.int32)
    ranks[codes] = np.arange(len(codes))
    rows = np.empty((layout.experts, len(symbols)), np.int32)
    if layout.experts:
        wrong = np.zeros(1, np.int64)
        _to_columns(symbols, layout.bases, ranks, rows, wrong, nanoseconds=symbols.size)
        _require_symbols(wrong)
    return rows


def _require_symbols(wrong: Integers) -> None:
    if wrong[0]:
        raise InvalidInput("a symbol is larger than its expert has: codes of another encoder")


def largest_square(codes: Codes, layout: Layout) -> int:
    """A bound on the diagonal of the gram of these codes."""
    narrow = np.array([max(-low, high) <= 255 for low, high in layout.dense_limits], np.bool_)
    wide = codes.dense[:, ~narrow].astype(np.float64)
    # Sums of squares of 16-bit integers are exact in float64 for as many samples as these.
    return max(255**2 * len(codes), int(np.einsum("sf,sf->f", wide, wide).max(initial=0)))


def add_gram(
    gram: Packed, rows: NDArray[np.int32], dense: NDArray[np.int16], offsets: Integers
) -> None:
    """``gram += Phi'Phi``.

    Parameters
    ----------
    gram : packed triangle of seen codes and dense columns, changed in place
    rows : int32, (experts, samples), from `rows_of`
    dense : int16, (samples, dense_dim)
    offsets : int64, (experts + 1,), first row of each expert
    """
    experts, width = len(rows), dense.shape[1]
    if experts:
        mean_size = int(offsets[-1]) // experts
        size = int(np.clip(ROWS_WORTH_A_PASS * mean_size, SMALLEST_PASS, LARGEST_PASS))
        for first in range(0, len(dense), size):
            part = slice(first, first + size)
            _add_symbols(gram, np.ascontiguousarray(rows[:, part]), dense[part], offsets)
    if width:
        add_products(gram[-triangle.packed_size(width) :], dense)


def _add_symbols(
    gram: Packed, rows: NDArray[np.int32], dense: NDArray[np.int16], offsets: Integers
) -> None:
    dim = int(offsets[-1]) + dense.shape[1]
    order, starts = group_samples(rows, offsets)
    count_pairs(
        rows, offsets, order, starts, dim, gram, single=offsets[-1] > WIDE_TABLE * len(rows)
    )
    found = np.bincount(rows.reshape(-1))
    codes = np.arange(len(found))
    gram[triangle.start(codes, dim) + codes] += found.astype(gram.dtype)
    if dense.shape[1]:
        _count_mixed(offsets, order, starts, dense, dim, gram)


def group_samples(
    rows: NDArray[np.int32], offsets: Integers
) -> tuple[NDArray[np.uint32], Integers]:
    """Sort each expert's samples by row: their order, and where each row begins in it.

    ``order[e, starts[r] : starts[r + 1]]`` are the samples in row r of expert e, where the last
    row of an expert ends at the sample count.
    """
    # Within its own expert: the kernel counts into that expert's stretch alone.
    if rows.size and (
        np.any(rows.min(axis=1) < offsets[:-1]) or np.any(rows.max(axis=1) >= offsets[1:])
    ):
        raise IndexError("a row is not its expert's")
    order = np.empty(rows.shape, np.uint32)
    starts = np.empty(offsets[-1], np.int64)
    cursor = np.empty(offsets[-1] + len(rows), np.int64)
    _group_samples(rows, offsets, order, starts, cursor, nanoseconds=4 * rows.size)
    return order, starts


def count_pairs(
    rows: NDArray[np.int32],
    offsets: Integers,
    order: NDArray[np.uint32],
    starts: Integers,
    dim: int,
    gram: Packed,
    *,
    single: bool,
) -> None:
    """Add all pairs of different experts; one increment a pair if ``single``: for wide experts."""
    if single:
        _count_single_pairs(rows.T, offsets, order, starts, dim, gram)
    else:
        _count_block_pairs(rows, offsets, order, starts, dim, gram)


def add_cross(
    cross: Integers, rows: NDArray[np.int32], dense: NDArray[np.int16], labels: Integers
) -> None:
    """``cross += Phi'Y``, int64, (dim, class_count), in place; labels are its columns."""
    seen = len(cross) - dense.shape[1]
    if len(rows):
        _count_labels(rows, labels, cross[:seen], nanoseconds=rows.size)
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(cross.shape[1]), side="right")
    _sum_by_class(dense, order, ends, cross[seen:], nanoseconds=dense.size / 4)
