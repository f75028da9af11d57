"""Counting: codes and labels -> sums, added to arrays in place.

Row (a, v) of the gram is the sum of the one-hot rows of the samples whose expert a has value v:
``_native/count.c``. Products of dense columns are multiplied as integers, in bytes where the codes
have few bits, else in 16 bits: ``_native/products.c``. Sums of integers do not depend on where one
batch ends and the next begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.encoders.codes import Layout
from safle.errors import InvalidInput
from safle.statistics import triangle
from safle.statistics.triangle import Integers, Packed

MIN_PASS = 2_048
MAX_PASS = 8_192
"""Samples counted in one pass over the gram: their one-hot rows for a block of columns
should stay in the L2 cache, and enough of them should meet in a row to pay for the pass. At
most 65,536, so that sums of int16 fit 32 bits."""
SAMPLES_PER_ROW = 128
"""Mean number of samples in a row of the gram that pays for a pass."""
WIDE_TABLE = 160
"""Mean number of seen symbols per expert above which single increments beat adding rows."""
WIDTH = 256
"""Columns that `_count_block_pairs` counts at a time."""
SAMPLES_AT_A_TIME = 4_096
"""Samples whose products are computed at once: only their copies in panels take memory."""
MAX_INT16 = (1 << 15) - 1
MAX_INT32_SUM = (1 << 31) - 1
MAX_BYTE_CODE = 31
"""Largest code that is multiplied as a byte: 17 pairs of products fit 16 bits."""
PANEL = 48
TILE = 3 * PANEL
"""Columns of a tile: the sums of their products stay in L2 beside their panels."""
BYTES_PER_WORD = 4
HALVES_PER_WORD = 2
_SYMBOLS = "symbols u1|u2[samples, experts]; samples; experts; bases i8[experts + 1]"
_TILES = "(experts + 63) // 64"
_to_columns = Kernel(
    "to_columns",
    _SYMBOLS,
    "ranks i4[bases[-1]]; columns i4[experts, samples]!",
    pieces=_TILES,
)
_mark_seen = Kernel("mark_seen", _SYMBOLS, "seen u1[bases[-1]]!; wrong i8[1]!", pieces=_TILES)
_group_samples = Kernel(
    "group_samples",
    "columns i4[experts, samples] <offsets[-1]; samples; offsets i8[experts + 1]",
    "order u4[experts, samples]!; starts i8[offsets[-1]]!; cursor i8[offsets[-1] + experts]~",
    pieces="experts",
)
_GROUPED = (
    "offsets i8[experts + 1]; experts; order u4[experts, samples] <samples; "
    "starts i8[offsets[-1]] <samples + 1"
)
_GRAM = "dim; gram i4|i8[packed(dim)]!"
_count_block_pairs = Kernel(
    "count_block_pairs",
    "columns i4[experts, samples] <offsets[-1]; samples",
    _GROUPED,
    _GRAM,
    "rows u1[128 * samples]~",
    pieces=f"((offsets[-1] + {WIDTH - 1}) // {WIDTH} + 1) // 2",
)
_count_single_pairs = Kernel(
    "count_single_pairs",
    "by_sample i4[samples, experts] <offsets[-1]; samples",
    _GROUPED,
    _GRAM,
    pieces="(experts + 1) // 2",
)
_count_mixed = Kernel(
    "count_mixed",
    _GROUPED,
    "samples; dense i2[samples, width]; width",
    _GRAM,
    "sums i4[width]~",
    pieces="experts",
)
_count_labels = Kernel(
    "count_labels",
    "columns i4[experts, samples] <codes; samples; labels i8[samples] <classes; classes",
    "cross i8[codes, classes]!",
    pieces="experts",
)
_sum_by_class = Kernel(
    "sum_by_class",
    "dense i2[samples, dim]; dim; order i8[samples] <samples",
    "ends i8[classes] <samples + 1; classes; cross i8[dim, classes]!",
    pieces="(dim + 511) // 512",
)
_pack = Kernel(
    "pack",
    "dense i2[samples, dim]; samples; dim; per_word",
    f"panels u4[panel_count, groups, {PANEL}]!; panel_count; groups",
    pieces="groups",
)
_add_tiles = Kernel(
    "add_tiles",
    f"panels u4[panel_count, groups, {PANEL}]; groups; wide; pairs i8[pair_count, 3]",
    f"gram i4|i8[packed(dim)]!; dim; tile i8[{TILE * TILE}]~",
    pieces="pair_count",
)


def find_rows(symbols: NDArray[Any], layout: Layout) -> tuple[Integers, NDArray[np.int32]]:
    """The codes that occur in ``symbols``, (samples, experts), ascending; and each symbol's row.

    Rows, int32, (experts, samples), are those of a gram over the codes that occur.
    """
    rows = np.empty((layout.experts, len(symbols)), np.int32)
    # A shortcut: single classes are counted often, and have no experts.
    if not layout.experts:
        return np.empty(0, np.int64), rows
    seen = np.zeros(layout.code_count, np.uint8)
    wrong = np.zeros(1, np.int64)
    _mark_seen(symbols, layout.bases, seen, wrong)
    if wrong[0]:
        raise InvalidInput("a symbol lies outside its expert's table: another encoder's codes")
    ranks = (np.cumsum(seen, dtype=np.int32) - 1).astype(np.int32)
    _to_columns(symbols, layout.bases, ranks, rows)
    return np.flatnonzero(seen), rows


def largest_square(dense: NDArray[np.int16], layout: Layout) -> int:
    """A bound on the diagonal of the gram of samples, (samples, dense_dim)."""
    narrow = layout.largest <= 255
    wide = dense[:, ~narrow].astype(np.float64)
    # In float64, sums of squares of 16-bit integers are exact for up to 2**23 samples.
    return max(255**2 * len(dense), int(np.einsum("sf,sf->f", wide, wide).max(initial=0)))


def add_gram(
    gram: Packed, rows: NDArray[np.int32], dense: NDArray[np.int16], offsets: Integers
) -> None:
    """``gram += Phi'Phi``; ``rows`` from `find_rows`, ``offsets`` the first row of each expert."""
    experts = len(rows)
    width = dense.shape[1]
    if experts:
        mean_size = int(offsets[-1]) // experts
        size = int(np.clip(SAMPLES_PER_ROW * mean_size, MIN_PASS, MAX_PASS))
        for first in range(0, len(dense), size):
            part = slice(first, first + size)
            _add_symbols(gram, np.ascontiguousarray(rows[:, part]), dense[part], offsets)
    if width:
        add_products(gram[-triangle.packed_size(width) :], dense)


def _add_symbols(
    gram: Packed, rows: NDArray[np.int32], dense: NDArray[np.int16], offsets: Integers
) -> None:
    dim = int(offsets[-1]) + dense.shape[1]
    order, starts = _group(rows, offsets)
    if offsets[-1] > WIDE_TABLE * len(rows):
        _count_single_pairs(rows.T, offsets, order, starts, dim, gram)
    else:
        _count_block_pairs(rows, offsets, order, starts, dim, gram)
    occurrences = np.bincount(rows.reshape(-1))
    codes = np.arange(len(occurrences))
    gram[triangle.start(codes, dim) + codes] += occurrences.astype(gram.dtype)
    if dense.shape[1]:
        _count_mixed(offsets, order, starts, dense, dim, gram)


def _group(rows: NDArray[np.int32], offsets: Integers) -> tuple[NDArray[np.uint32], Integers]:
    """Sort each expert's samples by row: their order, and where each row begins in it.

    ``order[e, starts[r] : starts[r + 1]]`` are the samples in row r of expert e, where the last
    row of an expert ends at the sample count.
    """
    # The kernel counts without a check, and each expert has only its own rows to count into.
    if np.any(rows.min(axis=1) < offsets[:-1]) or np.any(rows.max(axis=1) >= offsets[1:]):
        raise IndexError("a row lies outside its expert's rows")
    order = np.empty(rows.shape, np.uint32)
    starts = np.empty(offsets[-1], np.int64)
    _group_samples(rows, offsets, order, starts)
    return order, starts


def add_cross(
    cross: Integers, rows: NDArray[np.int32], dense: NDArray[np.int16], labels: Integers
) -> None:
    """``cross += Phi'Y``, int64, (dim, class_count), in place; labels are its columns."""
    seen = len(cross) - dense.shape[1]
    if seen:
        _count_labels(rows, labels, cross[:seen])
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(cross.shape[1]), side="right")
    _sum_by_class(dense, order, ends, cross[seen:])


def add_products(gram: Packed, dense: NDArray[np.int16]) -> None:
    """Add the products of dense columns, (samples, dense_dim), to their packed triangle."""
    for first in range(0, len(dense), SAMPLES_AT_A_TIME):
        _add_integers(gram, dense[first : first + SAMPLES_AT_A_TIME])


def _add_integers(gram: Packed, dense: NDArray[np.int16]) -> None:
    ranges = _tile_ranges(dense)
    tops, lefts = np.triu_indices(len(ranges))
    largest = np.abs(ranges).max(axis=1)
    if largest.max(initial=0) > MAX_INT16:
        raise ValueError("a dense code is -32768; expected at least -32767")
    # The largest sum of the products of two neighbouring samples.
    pair = 2 * np.maximum(largest[tops] * largest[lefts], 1)
    narrow = (ranges[:, 0] == 0) & (ranges[:, 1] <= MAX_BYTE_CODE)
    bytes_only = narrow[tops] & narrow[lefts]
    for wide, chosen in ((False, bytes_only), (True, ~bytes_only)):
        if not chosen.any():
            continue
        panels = _pack_panels(dense, HALVES_PER_WORD if wide else BYTES_PER_WORD)
        # How many groups of samples may be added before a sum could overflow its 16 or 32 bits.
        depth = (MAX_INT32_SUM if wide else MAX_INT16) // pair
        pairs = np.stack([tops, lefts, depth], axis=1)[chosen]
        _add_tiles(panels, int(wide), pairs, gram, dense.shape[1])


def _tile_ranges(dense: NDArray[np.int16]) -> NDArray[np.int64]:
    """Smallest and largest value of every `TILE` columns, 0 included; int64, (tiles, 2)."""
    firsts = np.arange(0, dense.shape[1], TILE)
    low = np.minimum.reduceat(dense.min(axis=0, initial=0), firsts)
    high = np.maximum.reduceat(dense.max(axis=0, initial=0), firsts)
    return np.stack([low, high], axis=1).astype(np.int64)


def _pack_panels(dense: NDArray[np.int16], per_word: int) -> NDArray[np.uint32]:
    """Panels of ``dense``, uint32, (panels, groups, PANEL), ``per_word`` samples per group.

    The last tile and the last group are filled up with zeros.
    """
    samples, dim = dense.shape
    count = -(-dim // TILE) * (TILE // PANEL)
    panels = np.empty((count, -(-samples // per_word), PANEL), np.uint32)
    _pack(dense, per_word, panels)
    return panels
