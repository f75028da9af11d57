"""Random features: a few signed additions per unit, sixteen samples at a time.

The fixed-point features of sixteen samples, and their negatives, lie as rows of sixteen: a
unit is a sum of a few of these rows, one addition from L1 or L2 each, then a shift and two
limits. Sixteen units by sixteen samples are transposed in registers and stored. Written as
LLVM vector code because the compiler would keep the sums in memory.

Limit: two additions from memory start per cycle, but each also waits for its row's number:
one addition per cycle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from safle.basics.compiling import array_pointers, run_kernel, vector_kernels

LANES = 16
"""Samples, and units, that are taken at a time."""
TERMS_AT_A_TIME = 4
MOST_DENSE = 32_767

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_HALVES, _WORDS = ir.VectorType(_I16, LANES), ir.VectorType(_I32, LANES)


def _emit_transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Sixteen vectors of sixteen lanes, rows and columns exchanged."""
    rows, lanes = [*rows], range(LANES)
    for size in (8, 4, 2, 1):
        upper = [lane if not lane & size else LANES + lane - size for lane in lanes]
        lower = [lane + size if not lane & size else LANES + lane for lane in lanes]
        masks = [ir.Constant(_WORDS, places) for places in (upper, lower)]
        for at in (row for row in lanes if not row & size):
            pair = rows[at], rows[at + size]
            rows[at], rows[at + size] = (builder.shuffle_vector(*pair, mask) for mask in masks)
    return rows


def _emit_unit(builder: Any, data: Any, unit: Any, numbers: Any, wide: bool) -> Any:
    """The code of one unit for sixteen samples, int16."""
    table, rows = data
    terms, shift, largest = numbers
    kind = _WORDS if wide else _HALVES

    def spread(number: Any) -> Any:
        narrow = builder.trunc(number, kind.element)
        vector = builder.insert_element(ir.Constant(kind, ir.Undefined), narrow, _I32(0))
        return builder.shuffle_vector(vector, vector, ir.Constant(_WORDS, [0] * LANES))

    total = cgutils.alloca_once(builder, kind)
    half = builder.lshr(builder.shl(_I64(1), shift), _I64(1))
    builder.store(spread(half), total)
    first = builder.mul(unit, terms)
    last, step = builder.add(first, terms), _I64(TERMS_AT_A_TIME)
    with cgutils.for_range_slice(builder, first, last, step, _I64) as (at, _):
        for term in range(TERMS_AT_A_TIME):
            place = builder.gep(rows, [builder.add(at, _I64(term))])
            place = builder.gep(table, [builder.zext(builder.load(place), _I64)])
            row = builder.load(builder.bitcast(place, _HALVES.as_pointer()), align=2)
            row = builder.sext(row, kind) if wide else row
            builder.store(builder.add(builder.load(total), row), total)
    code = builder.ashr(builder.load(total), spread(shift))
    for limit, order in ((ir.Constant(kind, None), "<"), (spread(largest), ">")):
        code = builder.select(builder.icmp_signed(order, code, limit), limit, code)
    return builder.trunc(code, _HALVES) if wide else code


def _summer(wide: bool) -> Any:
    @intrinsic
    def sum_units(
        typing_context: Any,
        table: Any,
        rows: Any,
        unit: Any,
        terms: Any,
        shift: Any,
        largest: Any,
        codes: Any,
        at: Any,
        stride: Any,
    ) -> Any:
        """Codes of units ``unit ... unit + 15`` for sixteen samples.

        Parameters
        ----------
        table : int16, flat; rows : uint32, flat, where the rows to add begin in it
        terms : rows per unit; shift, largest : of a code
        codes : int16, flat; at, stride : where the first sample's code goes, and from one
            sample to the next
        """
        i64 = types.int64
        signature = types.void(table, rows, i64, i64, i64, i64, codes, i64, i64)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = array_pointers(context, builder, sig, args)
            held = cgutils.alloca_once(builder, _HALVES, size=LANES)
            with cgutils.for_range(builder, _I64(LANES), intp=_I64) as loop:
                unit = builder.add(args[2], loop.index)
                code = _emit_unit(builder, (data(0), data(1)), unit, args[3:6], wide)
                builder.store(code, builder.gep(held, [loop.index]))
            units = [builder.load(builder.gep(held, [_I64(lane)])) for lane in range(LANES)]
            for lane, sample in enumerate(_emit_transposed(builder, units)):
                offset = builder.add(args[7], builder.mul(args[8], _I64(lane)))
                place = builder.bitcast(builder.gep(data(6), [offset]), _HALVES.as_pointer())
                builder.store(sample, place, align=2)
            return context.get_dummy_value()

        return signature, codegen

    return sum_units


_sum_narrow, _sum_wide = _summer(wide=False), _summer(wide=True)


@njit(cache=True, nogil=True)
def _fill_table(dense, first, last, dim, table):  # type: ignore[no-untyped-def]
    """Features and their negatives by sixteen samples, then zeros; the largest magnitude."""
    largest = 0
    table[:] = 0
    for sample in range(first, last):
        row, lane = dense[sample], sample - first
        for feature in range(dim):
            value = row[feature]
            table[feature * LANES + lane] = value
            table[(dim + feature) * LANES + lane] = -value
            if abs(np.int64(value)) > largest:
                largest = int(abs(np.int64(value)))
    return largest


@njit(cache=True, nogil=True)
def _encode_samples(dense, first, last, dim, units, rows, terms, shift, largest):  # type: ignore[no-untyped-def]
    table = np.empty((2 * dim + 1) * LANES, np.int16)
    reach = _fill_table(dense, first, last, dim, table)
    wide = reach * terms + ((1 << shift) >> 1) > MOST_DENSE or shift >= 15
    width, flat, few = dense.shape[1], dense.reshape(-1), np.empty(LANES * LANES, np.int16)
    for unit in range(0, units, LANES):
        at, stride, codes = first * width + dim + 1 + unit, width, flat
        # The last units of a row, and the last samples, must not be followed by others' codes.
        whole = last - first == LANES and unit + LANES <= units
        if not whole:
            at, stride, codes = 0, LANES, few
        if wide:
            _sum_wide(table, rows, unit, terms, shift, largest, codes, at, stride)
        else:
            _sum_narrow(table, rows, unit, terms, shift, largest, codes, at, stride)
        if not whole:
            for sample in range(first, last):
                for column in range(min(LANES, units - unit)):
                    dense[sample, dim + 1 + unit + column] = few[(sample - first) * LANES + column]


@njit(cache=True, nogil=True, parallel=True)
def _encode_blocks(dense, dim, units, rows, terms, shift, largest):  # type: ignore[no-untyped-def]
    for block in prange((len(dense) + LANES - 1) // LANES):
        first = np.int64(block) * LANES
        last = min(len(dense), first + LANES)
        _encode_samples(dense, first, last, dim, units, rows, terms, shift, largest)


@njit(cache=True, nogil=True, parallel=True)
def _encode_plain(dense, dim, units, rows, terms, shift, largest):  # type: ignore[no-untyped-def]
    for index in prange(len(dense)):
        row = dense[np.int64(index)]
        for unit in range(units):
            total = (1 << shift) >> 1
            for at in range(unit * terms, (unit + 1) * terms):
                place = np.int64(rows[at]) // LANES
                if place < dim:
                    total += row[place]
                elif place < 2 * dim:
                    total -= row[place - dim]
            row[dim + 1 + unit] = min(max(total >> shift, 0), largest)


def rows_of_terms(
    features: NDArray[np.integer[Any]], negative: NDArray[np.bool_], dim: int
) -> NDArray[np.uint32]:
    """What units add, as rows of a table of ``dim`` features, their negatives, and a zero.

    Parameters
    ----------
    features : int, (units, terms), below ``dim``; negative : bool, alike
    dim : number of features

    Returns
    -------
    uint32, (units, terms), both rounded up to what is taken at a time
    """
    units, terms = features.shape
    shape = units + -units % LANES, terms + -terms % TERMS_AT_A_TIME
    rows = np.full(shape, 2 * dim, np.uint32)
    rows[:units, :terms] = np.where(negative, dim + features, features)
    return rows * np.uint32(LANES)


def encode_units(
    dense: NDArray[np.int16],
    dim: int,
    units: int,
    rows: NDArray[np.uint32],
    *,
    shift: int,
    largest: int,
) -> None:
    """``dense[:, dim + 1 + j] = min(largest, max(0, sum_t ± dense[:, f(j, t)]) / 2^shift)``.

    Parameters
    ----------
    dense : int16, (samples, at least dim + 1 + units), features first, then a constant, then
        what is written, rounded; C-contiguous
    rows : from `rows_of_terms`
    shift, largest : at most 16, and at most int16
    """
    numbers = dim, units, rows.reshape(-1), rows.shape[1], shift, largest
    # About a third of a nanosecond for each addition of sixteen lanes.
    work = len(dense) * rows.size / LANES / 3
    if not vector_kernels():
        _encode_plain(dense, *numbers)
    elif len(dense) <= LANES:
        _encode_samples(dense, 0, len(dense), *numbers)
    else:
        run_kernel(_encode_blocks, dense, *numbers, nanoseconds=work)
