"""A tiny kernel with one of everything that the vector kernels are made of.

If it compiles and gives the right answer, this Numba and llvmlite accept what they emit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_HALVES, _WORDS = ir.VectorType(ir.IntType(16), 16), ir.VectorType(_I32, 8)


@intrinsic
def _multiply_pairs(typing_context: Any, values: Any) -> Any:
    """``values[i] * values[i] + values[i + 1] * values[i + 1]``, of 16 int16 into 8 int32."""
    signature = types.void(values)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [_I64(0)]), _HALVES.as_pointer())
        multiply = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_WORDS, [_HALVES, _HALVES]),
            "llvm.x86.avx2.pmadd.wd",
        )
        with cgutils.for_range_slice(builder, _I64(0), _I64(1), _I64(1), _I64):
            value = builder.load(place, align=2)
            pairs = builder.call(multiply, [value, value])
            builder.store(builder.bitcast(pairs, _HALVES), place, align=2)
        return context.get_dummy_value()

    return signature, codegen


@njit(cache=True, nogil=True)
def _square_ones(values):  # type: ignore[no-untyped-def]
    _multiply_pairs(values)


def trial_sum() -> int:
    """8, if all is well: a sum over eight lanes of 1 * 1 + 0 * 0."""
    values = np.tile(np.array([1, 0], np.int16), 8)
    _square_ones(values)
    return int(values.view(np.int32).sum())
