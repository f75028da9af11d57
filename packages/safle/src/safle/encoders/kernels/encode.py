"""Features -> digits -> composite codes, one sample a row: ``_native/encode.c``.

Digits are kept function-major (function l of feature f at ``l * feature_dim + f``); the permutation
handed in already points into that order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

LEVEL, EQUALS, EXCEEDS = 0, 1, 2
"""What a digit is of its feature's level (the number of thresholds below the value)."""
_encode_rows = Kernel(
    "encode_rows",
    "features f4|f8[samples, dim]",
    "samples",
    "dim",
    "thresholds =features[count, dim]",
    "count",
    "rule",
    "functions",
    "sources i4[digit_count] <functions * dim",
    "starts i8[experts + 1] <digit_count + 1",
    "experts",
    "radix",
    "symbols u1|u2[samples, experts]!",
    "digits u2[functions * dim]~",
    pieces="(samples + 63) // 64",
)


def encode_rows(
    features: NDArray[np.floating[Any]],
    thresholds: NDArray[np.floating[Any]],
    rule: int,
    functions: int,
    sources: NDArray[np.int32],
    starts: NDArray[np.int64],
    radix: int,
    symbols: NDArray[np.unsignedinteger[Any]],
) -> None:
    """Fill ``symbols[s, j] = sum_i digit(sources[starts[j] + i]) * radix**i``.

    Parameters
    ----------
    features : float, (samples, feature_dim)
    thresholds : float, (threshold_count, feature_dim), ascending along axis 0
    sources : int32, (digit_count,), positions of the shuffled digits in a row
    starts : int64, (experts + 1,), where each expert's digits begin in ``sources``
    symbols : uint8 or uint16, (samples, experts), written
    """
    if rule == EXCEEDS and functions > len(thresholds):
        raise IndexError(f"{functions} functions, but {len(thresholds)} thresholds a feature")
    _encode_rows(
        features,
        thresholds,
        rule,
        functions,
        sources,
        starts,
        radix,
        symbols,
        nanoseconds=len(features) * len(sources),
    )
