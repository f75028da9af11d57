"""Weights on a grid, and scores of symbols: sums of one table row per expert, in integers.

Weights are multiples of one power of two, `MOST_BITS` bits at most: sums of them are exact in any
order, and 64 rows add up in 32 bits before the sum is widened (``_native/predict.c``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

LANES = 4
"""Classes in a vector; tables are padded to a multiple."""
MOST_BITS = 24
"""Most bits of a table's entry, without its sign."""
_look_up = Kernel(
    "look_up",
    "symbols u1|u2[samples, experts]",
    "samples",
    "bases i8[experts + 1]",
    "experts",
    "tables i4[bases[-1], width]",
    "width",
    "scores i8[samples, width]!",
    pieces="(samples + 255) // 256",
)


def padded(tables: NDArray[np.int32]) -> NDArray[np.int32]:
    """``tables`` with zero columns up to a multiple of `LANES`."""
    return np.pad(tables, ((0, 0), (0, -tables.shape[1] % LANES)))


def look_up(
    symbols: NDArray[np.unsignedinteger[Any]], bases: NDArray[np.int64], tables: NDArray[np.int32]
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
    sizes = np.diff(bases)
    if symbols.size and (symbols.max(axis=0) >= sizes).any():
        raise IndexError("a symbol is larger than its expert has")
    # About a third of a nanosecond for each addition of four lanes.
    work = symbols.size * tables.shape[1] / LANES / 3
    _look_up(symbols, bases, tables, scores, nanoseconds=work)
    return scores


def on_grid(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to multiples of a power of two, `MOST_BITS` below the largest value."""
    exponent = grid_exponent(values)
    # Plus zero: what rounds to nothing must not keep the sign of its last bits.
    steps = np.rint(np.ldexp(values, -exponent))
    return np.ldexp(steps, exponent).astype(np.float32) + np.float32(0)


def grid_exponent(values: NDArray[np.floating[Any]]) -> int:
    """The exponent of the power of two that `on_grid` rounds ``values`` to multiples of."""
    # As float32, which has as many bits: a largest value that rounds up to the next
    # power of two belongs to that one's grid, so rounded values keep their grid.
    largest = np.float32(np.abs(values).max(initial=0.0))
    return int(np.frexp(largest)[1]) - MOST_BITS
