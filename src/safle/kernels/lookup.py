"""Scores: the sum of one table row per expert.

The weights are multiples of one power of two, so a float64 sum of them is exact and may
run in any order: two rows are added at a time, in separate sums that hide the latency of
an addition. Written as LLVM vector code because the compiler leaves the loop scalar.

Limit: the tables stay in L2; a row of twelve classes costs three loads that widen and
three additions, about 1 ns.
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
"""Classes in a vector; tables are padded to a multiple."""
MOST_VECTORS = 4
"""Vectors of one row that are added in one pass over the experts."""
_CHAINS = 2
_I64 = ir.IntType(64)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


def _emit_sums(
    builder: Any, symbols: Any, bases: Any, experts: Any, tables: Any, width: Any, vectors: int
) -> list[Any]:
    """Sums over experts of ``vectors`` neighbouring vectors of their rows."""
    sums = [
        [cgutils.alloca_once(builder, _DOUBLES) for _ in range(vectors)] for _ in range(_CHAINS)
    ]
    for totals in sums:
        for total in totals:
            builder.store(ir.Constant(_DOUBLES, [0.0] * LANES), total)

    def add(totals: list[Any], expert: Any) -> None:
        symbol = builder.zext(builder.load(builder.gep(symbols, [expert])), _I64)
        code = builder.add(builder.load(builder.gep(bases, [expert])), symbol)
        row = builder.gep(tables, [builder.mul(code, width)])
        row = builder.bitcast(row, _FLOATS.as_pointer())
        for index, total in enumerate(totals):
            part = builder.load(builder.gep(row, [_I64(index)]), align=4)
            wide = builder.fpext(part, _DOUBLES)
            builder.store(builder.fadd(builder.load(total), wide), total)

    whole = builder.sub(experts, builder.srem(experts, _I64(_CHAINS)))
    with cgutils.for_range_slice(builder, _I64(0), whole, _I64(_CHAINS), _I64) as (at, _):
        for chain, totals in enumerate(sums):
            add(totals, builder.add(at, _I64(chain)))
    with cgutils.for_range_slice(builder, whole, experts, _I64(1), _I64) as (at, _):
        add(sums[0], at)
    first, second = sums
    return [
        builder.fadd(builder.load(a), builder.load(b)) for a, b in zip(first, second, strict=True)
    ]


def _adder(vectors: int) -> Any:
    """Code that adds ``vectors`` vectors of every expert's row to a sample's scores."""

    @intrinsic
    def add_rows(
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
        """``scores[target + l] += sum_e tables[row_e * width + first + l]``.

        For l below ``vectors * LANES`` and ``row_e = bases[e] + symbols[origin + e]``.
        Arrays are flat and contiguous; ``bases`` has one entry more than experts.
        """
        i64 = types.int64
        signature = types.void(symbols, i64, bases, tables, i64, i64, scores, i64)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            def array(position: int) -> Any:
                return context.make_array(sig.args[position])(context, builder, args[position])

            experts = builder.sub(builder.extract_value(array(2).shape, 0), _I64(1))
            sample = builder.gep(array(0).data, [args[1]])
            columns = builder.gep(array(3).data, [args[5]])
            totals = _emit_sums(builder, sample, array(2).data, experts, columns, args[4], vectors)
            output = builder.bitcast(builder.gep(array(6).data, [args[7]]), _DOUBLES.as_pointer())
            for index, total in enumerate(totals):
                place = builder.gep(output, [_I64(index)])
                builder.store(builder.fadd(builder.load(place, align=8), total), place, align=8)
            return context.get_dummy_value()

        return signature, codegen

    return add_rows


_add_one, _add_two, _add_three, _add_four = map(_adder, range(1, MOST_VECTORS + 1))


@njit(cache=True, nogil=True)
def _add_sample(symbols, origin, bases, tables, width, scores, target):  # type: ignore[no-untyped-def]
    for lane in range(0, width, MOST_VECTORS * LANES):
        left = (width - lane) // LANES
        if left >= MOST_VECTORS:
            _add_four(symbols, origin, bases, tables, width, lane, scores, target + lane)
        elif left == 3:
            _add_three(symbols, origin, bases, tables, width, lane, scores, target + lane)
        elif left == 2:
            _add_two(symbols, origin, bases, tables, width, lane, scores, target + lane)
        else:
            _add_one(symbols, origin, bases, tables, width, lane, scores, target + lane)


@njit(cache=True, nogil=True, parallel=True)
def _look_up(symbols, bases, tables, experts, width, scores):  # type: ignore[no-untyped-def]
    samples = len(scores) // width
    chunk = 64
    for part in prange((samples + chunk - 1) // chunk):
        first = np.int64(part) * chunk
        for sample in range(first, min(samples, first + chunk)):
            _add_sample(symbols, sample * experts, bases, tables, width, scores, sample * width)


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
