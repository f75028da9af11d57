"""Scores: the sum of one table row per expert.

The weights are multiples of one power of two, so a float64 sum of them is exact and may
run in any order: four rows are added at a time, in separate sums that hide the latency of
an addition. Written as LLVM vector code because the compiler leaves the loop scalar.

Limit: the tables stay in L2; a row of four classes costs a load, a widening and an
addition, about 0.5 ns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

LANES = 4
"""Classes added at once; tables are padded to a multiple."""
_CHAINS = 4
_I64 = ir.IntType(64)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


@intrinsic
def _add_rows(
    typing_context: Any,
    symbols: Any,
    origin: Any,
    bases: Any,
    tables: Any,
    width: Any,
    first: Any,
    scores: Any,
    target: Any,
) -> Any:
    """``scores[target + l] += sum_e tables[(bases[e] + symbols[origin + e]) * width + first + l]``.

    For l in 0 .. LANES - 1 and all experts e; arrays are flat and contiguous, ``bases``
    has one entry more than there are experts.
    """
    i64 = types.int64
    signature = types.void(symbols, i64, bases, tables, i64, i64, scores, i64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def array(position: int) -> Any:
            return context.make_array(sig.args[position])(context, builder, args[position])

        symbol_data, base_data, table_data = array(0).data, array(2).data, array(3).data
        experts = builder.sub(builder.extract_value(array(2).shape, 0), _I64(1))
        zero = ir.Constant(_DOUBLES, [0.0] * LANES)
        sums = [cgutils.alloca_once(builder, _DOUBLES) for _ in range(_CHAINS)]
        for total in sums:
            builder.store(zero, total)

        def add(total: Any, expert: Any) -> None:
            pointer = builder.gep(symbol_data, [builder.add(args[1], expert)])
            symbol = builder.zext(builder.load(pointer), _I64)
            code = builder.add(builder.load(builder.gep(base_data, [expert])), symbol)
            at = builder.add(builder.mul(code, args[4]), args[5])
            row = builder.bitcast(builder.gep(table_data, [at]), _FLOATS.as_pointer())
            wide = builder.fpext(builder.load(row, align=4), _DOUBLES)
            builder.store(builder.fadd(builder.load(total), wide), total)

        whole = builder.sub(experts, builder.srem(experts, _I64(_CHAINS)))
        with cgutils.for_range_slice(builder, _I64(0), whole, _I64(_CHAINS), _I64) as (at, _):
            for chain, total in enumerate(sums):
                add(total, builder.add(at, _I64(chain)))
        with cgutils.for_range_slice(builder, whole, experts, _I64(1), _I64) as (at, _):
            add(sums[0], at)
        output = builder.bitcast(builder.gep(array(6).data, [args[7]]), _DOUBLES.as_pointer())
        result = builder.load(output, align=8)
        for total in sums:
            result = builder.fadd(result, builder.load(total))
        builder.store(result, output, align=8)
        return context.get_dummy_value()

    return signature, codegen


@njit(cache=True, nogil=True, parallel=True)
def _look_up(symbols, bases, tables, experts, width, scores):  # type: ignore[no-untyped-def]
    samples = len(scores) // width
    chunk = 64
    for part in prange((samples + chunk - 1) // chunk):
        first = np.int64(part) * chunk
        for sample in range(first, min(samples, first + chunk)):
            for lane in range(0, width, LANES):
                _add_rows(
                    symbols,
                    sample * experts,
                    bases,
                    tables,
                    width,
                    lane,
                    scores,
                    sample * width + lane,
                )


def padded(tables: NDArray[np.float32]) -> NDArray[np.float32]:
    """``tables`` with zero columns up to a multiple of `LANES`."""
    return np.pad(tables, ((0, 0), (0, -tables.shape[1] % LANES)))


def look_up(
    symbols: NDArray[np.unsignedinteger], bases: NDArray[np.int64], tables: NDArray[np.float32]
) -> NDArray[np.float64]:
    """``scores[s] = sum_e tables[bases[e] + symbols[s, e]]``, (samples, padded class_count).

    Parameters
    ----------
    symbols : uint8 or uint16, (samples, experts)
    bases : int64, (experts + 1,), first code of each expert and the end
    tables : float32, (code_count, class_count), as `padded` gives them
    """
    scores = np.zeros((len(symbols), tables.shape[1]))
    _look_up(
        np.ascontiguousarray(symbols).reshape(-1),
        bases,
        tables.reshape(-1),
        symbols.shape[1],
        tables.shape[1],
        scores.reshape(-1),
    )
    return scores
