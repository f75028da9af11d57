"""Scores: the sum of one table row per expert, in integers.

The weights are multiples of one power of two, `MOST_BITS` bits at most: 64 rows add up
in 32 bits before the sum is widened. A sum of integers is exact and may run in any order.
Written as LLVM vector code because the compiler leaves the loop scalar.

Limit: the tables stay in L2; a row of twelve classes costs two additions from memory.
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

LANES = 4
"""Classes in a vector; tables are padded to a multiple."""
MOST_VECTORS = 4
"""Vectors of one row that are added in one pass over the experts."""
MOST_BITS = 24
"""Of a table's entry, beside its sign."""
CHUNK = 256
"""Samples a thread takes at a time."""
ROWS_PER_WORD = 64
"""How many rows may be added before a 32-bit sum could overflow, with a bit to spare."""
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _emit_sums(
    builder: Any, sizes: list[int], symbols: Any, codes: Any, experts: Any, rows: Any
) -> list[Any]:
    """The sums of some experts' rows, int32, a vector for each of ``sizes``."""
    tables, width = rows
    vectors = [ir.VectorType(_I32, size) for size in sizes]
    totals = [
        cgutils.alloca_once_value(builder, ir.Constant(vector, [0] * vector.count))
        for vector in vectors
    ]
    with cgutils.for_range_slice(builder, *experts, _I64(1), _I64) as (expert, _):
        symbol = builder.zext(builder.load(builder.gep(symbols, [expert])), _I64)
        code = builder.add(builder.load(builder.gep(codes, [expert])), symbol)
        row = builder.gep(tables, [builder.mul(code, width)])
        for index, (vector, total) in enumerate(zip(vectors, totals, strict=True)):
            place = builder.gep(row, [_I64(2 * LANES * index)])
            part = builder.load(builder.bitcast(place, vector.as_pointer()), align=4)
            builder.store(builder.add(builder.load(total), part), total)
    return [builder.load(total) for total in totals]


def _adder(vectors: int) -> Any:
    """Code that adds ``vectors * LANES`` entries of some experts' rows to a sample's scores."""
    # Twelve lanes as eight and four: the compiler takes odd vectors apart.
    sizes = [2 * LANES] * (vectors // 2) + [LANES] * (vectors % 2)

    @intrinsic
    def add_rows(
        typing_context: Any,
        symbols: Any,
        origin: Any,
        bases: Any,
        first: Any,
        last: Any,
        tables: Any,
        width: Any,
        lane: Any,
        scores: Any,
        target: Any,
    ) -> Any:
        """``scores[target + l] += sum_e tables[row_e * width + lane + l]``.

        For l below ``vectors * LANES``, e from ``first`` to before ``last``, at most
        `ROWS_PER_WORD` of them, and ``row_e = bases[e] + symbols[origin + e]``. Arrays are
        flat: taking a row of one costs more than adding it.
        """
        i64 = types.int64
        signature = types.void(symbols, i64, bases, i64, i64, tables, i64, i64, scores, i64)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = array_pointers(context, builder, sig, args)
            sample = builder.gep(data(0), [args[1]])
            rows = builder.gep(data(5), [args[7]]), args[6]
            totals = _emit_sums(builder, sizes, sample, data(2), args[3:5], rows)
            for index, (total, size) in enumerate(zip(totals, sizes, strict=True)):
                wide = ir.VectorType(_I64, size)
                place = builder.gep(data(8), [builder.add(args[9], _I64(2 * LANES * index))])
                output = builder.bitcast(place, wide.as_pointer())
                before = builder.load(output, align=8)
                builder.store(builder.add(before, builder.sext(total, wide)), output, align=8)
            return context.get_dummy_value()

        return signature, codegen

    return add_rows


_add_one, _add_two, _add_three, _add_four = map(_adder, range(1, MOST_VECTORS + 1))


@njit(cache=True, nogil=True)
def _add_some(symbols, origin, bases, first, last, tables, width, scores, target):  # type: ignore[no-untyped-def]
    for lane in range(0, width, MOST_VECTORS * LANES):
        left, at = (width - lane) // LANES, target + lane
        if left >= MOST_VECTORS:
            _add_four(symbols, origin, bases, first, last, tables, width, lane, scores, at)
        elif left == 3:
            _add_three(symbols, origin, bases, first, last, tables, width, lane, scores, at)
        elif left == 2:
            _add_two(symbols, origin, bases, first, last, tables, width, lane, scores, at)
        else:
            _add_one(symbols, origin, bases, first, last, tables, width, lane, scores, at)


@njit(cache=True, nogil=True, parallel=True)
def _look_up(symbols, bases, tables, width, scores):  # type: ignore[no-untyped-def]
    samples, experts = len(scores) // width, len(bases) - 1
    for part in prange((samples + CHUNK - 1) // CHUNK):
        start = np.int64(part) * CHUNK
        # Samples inside experts: a few tables stay in L1 for all samples of a chunk.
        for first in range(0, experts, ROWS_PER_WORD):
            last = min(experts, first + ROWS_PER_WORD)
            for sample in range(start, min(samples, start + CHUNK)):
                origin, target = sample * experts, sample * width
                _add_some(symbols, origin, bases, first, last, tables, width, scores, target)


@njit(cache=True, nogil=True, parallel=True)
def _look_up_plain(symbols, bases, tables, width, scores):  # type: ignore[no-untyped-def]
    experts = len(bases) - 1
    for index in prange(len(scores) // width):
        sample = np.int64(index)
        for expert in range(experts):
            row = (bases[expert] + np.int64(symbols[sample * experts + expert])) * width
            for lane in range(width):
                scores[sample * width + lane] += tables[row + lane]


def padded(tables: NDArray[np.int32]) -> NDArray[np.int32]:
    """``tables`` with zero columns up to a multiple of `LANES`."""
    return np.pad(tables, ((0, 0), (0, -tables.shape[1] % LANES)))


def look_up(
    symbols: NDArray[np.unsignedinteger], bases: NDArray[np.int64], tables: NDArray[np.int32]
) -> NDArray[np.int64]:
    """``scores[s] = sum_e tables[bases[e] + symbols[s, e]]``, (samples, padded class_count).

    Parameters
    ----------
    symbols : uint8 or uint16, (samples, experts)
    bases : int64, (experts + 1,), first code of each expert and the end
    tables : int32, (code_count, class_count), as `padded` gives them, at most
        ``2**MOST_BITS`` in magnitude
    """
    scores = np.zeros((len(symbols), tables.shape[1]), np.int64)
    flat = np.ascontiguousarray(symbols).reshape(-1)
    add_rows = _look_up if vector_kernels() else _look_up_plain
    arguments = flat, bases, tables.reshape(-1), tables.shape[1], scores.reshape(-1)
    # About a third of a nanosecond for each addition of four lanes.
    run_kernel(add_rows, *arguments, nanoseconds=flat.size * tables.shape[1] / LANES / 3)
    return scores
