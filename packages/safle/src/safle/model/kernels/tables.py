"""Scores: the sum of one table row per expert, in integers: ``_native/predict.c``.

The weights are multiples of one power of two, `MOST_BITS` bits at most: 64 rows add up
in 32 bits before the sum is widened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

LANES = 4
"""Classes in a vector; tables are padded to a multiple."""
MOST_BITS = 24
"""Of a table's entry, beside its sign."""
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
