"""The innermost sum: many rows of 4-bit counters, added a vector at a time.

A row holds the one-hot codes of one sample for a block of ``WIDTH`` columns,
four bits each. Fifteen rows can be added before a counter may overflow; the
sums are then widened to bytes. Written as LLVM vector code because the compiler
cannot prove that rows and sums do not overlap and leaves the loop scalar
(five times slower). Its plain twin is `count.count_single_pairs`.

Limit: one 128-byte row is two cache lines, so L1 gives one row about every
1.3 ns and L2 about half of that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from safle.basics.compiling import array_pointers

WORDS = 16
HALF = 8 * WORDS
WIDTH = 2 * HALF
ROWS_PER_NIBBLE = 15
ROWS_PER_BYTE = 255
"""How many rows may be added before a byte counter could overflow."""

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_I64, WORDS)
_CACHE_LINE = 64


def _prefetch(builder: Any, pointer: Any, size: int) -> None:
    """Ask for ``size`` bytes that are about to be written."""
    signature = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
    pointer = builder.bitcast(pointer, _I8.as_pointer())
    for offset in range(0, size, _CACHE_LINE):
        line = builder.gep(pointer, [_I64(offset)])
        builder.call(function, [line, _I32(1), _I32(3), _I32(1)])


def _emit_sum(builder: Any, rows: Any, samples: Any, first: Any, last: Any, sums: Any) -> None:
    low = ir.Constant(_VECTOR, [0x0F0F0F0F0F0F0F0F] * WORDS)
    four = ir.Constant(_VECTOR, [4] * WORDS)
    zero = ir.Constant(_VECTOR, [0] * WORDS)
    even, odd, tail = (cgutils.alloca_once(builder, _VECTOR) for _ in range(3))
    for total in (even, odd, tail):
        builder.store(zero, total)

    def add(total: Any, value: Any) -> None:
        builder.store(builder.add(builder.load(total), value), total)

    def row(position: Any) -> Any:
        sample = builder.zext(builder.load(builder.gep(samples, [position])), _I64)
        pointer = builder.gep(rows, [builder.mul(sample, _I64(WORDS))])
        return builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()), align=8)

    def widen(nibbles: Any) -> None:
        add(even, builder.and_(nibbles, low))
        add(odd, builder.and_(builder.lshr(nibbles, four), low))

    remainder = builder.srem(builder.sub(last, first), _I64(ROWS_PER_NIBBLE))
    whole = builder.sub(last, remainder)
    with cgutils.for_range_slice(builder, first, whole, _I64(ROWS_PER_NIBBLE), _I64) as (at, _):
        nibbles = row(at)
        for step in range(1, ROWS_PER_NIBBLE):
            nibbles = builder.add(nibbles, row(builder.add(at, _I64(step))))
        widen(nibbles)
    with cgutils.for_range_slice(builder, whole, last, _I64(1), _I64) as (at, _):
        add(tail, row(at))
    widen(builder.load(tail))
    output = builder.bitcast(sums, _VECTOR.as_pointer())
    builder.store(builder.load(even), output, align=8)
    builder.store(builder.load(odd), builder.gep(output, [_I64(1)]), align=8)


@intrinsic
def sum_rows(
    typing_context: Any,
    rows: Any,
    samples: Any,
    first: Any,
    last: Any,
    sums: Any,
    target: Any,
    at: Any,
) -> Any:
    """``sums[c] = sum over s in samples[first:last] of nibble(rows[s], c)``, as bytes.

    Parameters
    ----------
    rows : uint64, (sample_count, WORDS): column c < HALF in the low nibble of byte c,
        column HALF + c in its high nibble
    samples : uint32, (any,); first, last : at most ``ROWS_PER_BYTE`` apart
    sums : uint64, (2 * WORDS,), read as ``WIDTH`` bytes
    target, at : the int32/int64 array and position the caller adds the sums to,
        fetched into the cache meanwhile: the rows of a triangle lie far apart
    """
    signature = types.void(rows, samples, types.int64, types.int64, sums, target, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = array_pointers(context, builder, sig, args)
        item = sig.args[5].dtype.bitwidth // 8
        _prefetch(builder, builder.gep(data(5), [args[6]]), WIDTH * item)
        _emit_sum(builder, data(0), data(1), args[2], args[3], data(4))
        return context.get_dummy_value()

    return signature, codegen
