"""Sums of products of integer columns by multiply-add instructions, one triangle of them.

``pmaddubsw`` multiplies 32 pairs of bytes at once and adds neighbours into 16 bits, which
few-bit codes fill only after many of them: 72 times for 4 bits. ``pmaddwd`` does the same
for 16 pairs of int16 into 32 bits. A float32 fused multiply-add has 8 products.

Columns lie in panels: of four samples (two, as int16) a column's values are one 32-bit word,
and the words of `PANEL` columns lie side by side. A step takes one group of samples: each
word of six columns, spread over a vector, times two vectors of eight columns.

Limit: every multiplication needs an addition, and a Zen 3 core starts two of each per
cycle: 64 products of bytes, four times what float32 has. The loop alone reaches about 70 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from safle.basics.compiling import array_pointers
from safle.statistics.kernels.triangle import start

ROWS, VECTORS, LANES = 6, 2, 8
"""Twelve sums, two vectors and the spread word leave one register of sixteen."""
PANEL = 48
"""Columns: whole blocks of `ROWS` and of ``VECTORS * LANES``."""
TILE = 3 * PANEL
"""Columns whose sums, with one another, stay in L2 beside what they are made of."""
BYTES_PER_WORD, HALVES_PER_WORD = 4, 2
MOST_DEPTH = 96
"""Groups of samples between two additions to a tile: their panels stay in L1."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), 4 * LANES)
_HALVES = ir.VectorType(ir.IntType(16), 2 * LANES)
_WORDS, _LONGS = ir.VectorType(_I32, LANES), ir.VectorType(_I64, LANES)
_PLACES = [(row, vector) for row in range(ROWS) for vector in range(VECTORS)]


def _call(builder: Any, name: str, result: Any, *values: Any) -> Any:
    signature = ir.FunctionType(result, [value.type for value in values])
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.x86.avx2.{name}")
    return builder.call(function, values)


def _emit_sums(builder: Any, panels: tuple[Any, Any], depth: Any, wide: bool) -> list[Any]:
    """The twelve sums over ``depth`` groups of samples, in vectors of int32."""
    left, right = panels
    name, factors, sums = (
        ("pmadd.wd", _HALVES, _WORDS) if wide else ("pmadd.ub.sw", _BYTES, _HALVES)
    )
    totals = [cgutils.alloca_once_value(builder, ir.Constant(sums, None)) for _ in _PLACES]
    first = ir.Constant(_WORDS, [0] * LANES)
    with cgutils.for_range(builder, depth, intp=_I64) as loop:
        step = builder.mul(loop.index, _I64(PANEL))
        row_words, vectors = builder.gep(left, [step]), []
        for vector in range(VECTORS):
            place = builder.gep(right, [builder.add(step, _I64(LANES * vector))])
            vectors.append(builder.load(builder.bitcast(place, factors.as_pointer()), align=4))
        for (row, vector), total in zip(_PLACES, totals, strict=True):
            if vector == 0:
                word = builder.load(builder.gep(row_words, [_I64(row)]))
                spread = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), word, _I32(0))
                spread = builder.shuffle_vector(spread, spread, first)
                spread = builder.bitcast(spread, factors)
            products = _call(builder, name, sums, vectors[vector], spread)
            builder.store(builder.add(builder.load(total), products), total)
    found = [builder.load(total) for total in totals]
    if wide:
        return found
    ones = ir.Constant(_HALVES, [1] * _HALVES.count)
    return [_call(builder, "pmadd.wd", _WORDS, total, ones) for total in found]


def _multiplier(wide: bool) -> Any:
    @intrinsic
    def multiply(
        typing_context: Any, panels: Any, left: Any, right: Any, depth: Any, tile: Any, at: Any
    ) -> Any:
        """Add the products of `ROWS` by ``VECTORS * LANES`` columns to a tile.

        Parameters
        ----------
        panels : uint32, flat; left, right : where the two blocks of columns begin in it
        depth : groups of samples
        tile : int64, flat, rows of `TILE`; at : where the block's sums begin in it
        """
        i64 = types.int64
        signature = types.void(panels, i64, i64, i64, tile, i64)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = array_pointers(context, builder, sig, args)
            ends = builder.gep(data(0), [args[1]]), builder.gep(data(0), [args[2]])
            sums = _emit_sums(builder, ends, args[3], wide)
            for (row, vector), total in zip(_PLACES, sums, strict=True):
                offset = _I64(row * TILE + vector * LANES)
                place = builder.gep(data(4), [builder.add(args[5], offset)])
                place = builder.bitcast(place, _LONGS.as_pointer())
                before = builder.load(place, align=8)
                builder.store(builder.add(before, builder.sext(total, _LONGS)), place, align=8)
            return context.get_dummy_value()

        return signature, codegen

    return multiply


_multiply_bytes, _multiply_halves = _multiplier(wide=False), _multiplier(wide=True)


@njit(cache=True, nogil=True, parallel=True)
def tile_ranges(dense: NDArray[np.int16]) -> NDArray[np.int64]:
    """Smallest and largest value of every `TILE` columns, int64, (tiles, 2)."""
    samples, dim = dense.shape
    ranges = np.zeros(((dim + TILE - 1) // TILE, 2), np.int64)
    for index in prange(len(ranges)):
        left = np.int64(index) * TILE
        low, high = np.int16(0), np.int16(0)
        for sample in range(samples):
            row = dense[sample, left : min(dim, left + TILE)]
            for column in range(len(row)):
                low, high = min(low, row[column]), max(high, row[column])
        ranges[index, 0], ranges[index, 1] = low, high
    return ranges


@njit(cache=True, nogil=True, parallel=True)
def _pack(dense, per_word, panels):  # type: ignore[no-untyped-def]
    samples = len(dense)
    bits = np.uint32(32 // per_word)
    mask = np.uint32(0xFFFFFFFF) >> (np.uint32(32) - bits)
    for index in prange(panels.shape[1]):
        group = np.int64(index)
        for panel in range(panels.shape[0]):
            words, left = panels[panel, group], panel * PANEL
            words[:] = 0
            for k in range(min(per_word, samples - group * per_word)):
                row, shift = dense[group * per_word + k, left : left + PANEL], np.uint32(k) * bits
                for column in range(len(row)):
                    words[column] |= (np.uint32(row[column]) & mask) << shift


def pack(dense: NDArray[np.int16], per_word: int) -> NDArray[np.uint32]:
    """Panels of ``dense``, uint32, (panels, groups, PANEL), ``per_word`` samples per group.

    Whole tiles of panels and whole groups: columns and samples that are not there are zero.
    """
    samples, dim = dense.shape
    count = -(-dim // TILE) * (TILE // PANEL)
    panels = np.empty((count, -(-samples // per_word), PANEL), np.uint32)
    _pack(dense, per_word, panels)
    return panels


@njit(cache=True, nogil=True)
def _fill_tile(panels, wide, top, left, depth, tile):  # type: ignore[no-untyped-def]
    """The sums of products of columns from ``top`` and from ``left``, ``TILE`` of each."""
    groups, words = panels.shape[1], panels.reshape(-1)
    tile[:] = 0
    for first in range(0, groups, depth):
        size = min(depth, groups - first)
        for column in range(0, TILE, VECTORS * LANES):
            panel, within = divmod(left + column, PANEL)
            right = (panel * groups + first) * PANEL + within
            for row in range(0, TILE, ROWS):
                if top == left and row >= column + VECTORS * LANES:
                    break
                panel, within = divmod(top + row, PANEL)
                at = (panel * groups + first) * PANEL + within
                if wide:
                    _multiply_halves(words, at, right, size, tile, row * TILE + column)
                else:
                    _multiply_bytes(words, at, right, size, tile, row * TILE + column)


@njit(cache=True, nogil=True, parallel=True)
def add_tiles(
    panels: NDArray[np.uint32],
    wide: bool,
    pairs: NDArray[np.int64],
    gram: NDArray[np.integer],
    dim: int,
) -> None:
    """Add the products of pairs of tiles to a packed triangle.

    Parameters
    ----------
    panels : as `pack` makes them, of int16 if ``wide``, else of bytes
    pairs : int64, (pairs, 3): upper tile, left tile, and how many groups of samples may be
        added before a sum could leave its 16 or 32 bits
    gram : packed triangle, changed in place; dim : its columns
    """
    for index in prange(len(pairs)):
        top, left = pairs[index, 0] * TILE, pairs[index, 1] * TILE
        tile = np.empty(TILE * TILE, np.int64)
        _fill_tile(panels, wide, top, left, min(pairs[index, 2], MOST_DEPTH), tile)
        for row in range(min(TILE, dim - top)):
            skipped = max(0, top + row - left)
            values = tile[row * TILE + skipped : row * TILE + min(TILE, dim - left)]
            base = start(top + row, dim) + left + skipped
            target = gram[base : base + len(values)]
            for k in range(len(values)):
                target[k] += values[k]
