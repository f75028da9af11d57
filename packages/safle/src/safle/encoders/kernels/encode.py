"""Features -> digits -> composite codes, one sample a row.

Digits are kept function-major (function l of feature f at ``l * feature_dim + f``),
so that the comparisons of a row are contiguous and vectorise; the permutation
handed in already points into that order.

Limit: one byte-sized gather per digit, about one a cycle and core.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

LEVEL, EQUALS, EXCEEDS = 0, 1, 2
"""What a digit is of its feature's level (the number of thresholds below the value)."""


@njit(cache=True, nogil=True)
def _digits_of_row(row, thresholds, rule, functions, digits):  # type: ignore[no-untyped-def]
    feature_dim = row.shape[0]
    if rule == EXCEEDS:
        for function in range(functions):
            for feature in range(feature_dim):
                digits[function * feature_dim + feature] = (
                    row[feature] > thresholds[function, feature]
                )
        return
    for feature in range(feature_dim):
        low, high = 0, thresholds.shape[0]
        while low < high:
            middle = (low + high) // 2
            if row[feature] > thresholds[middle, feature]:
                low = middle + 1
            else:
                high = middle
        if rule == LEVEL:
            digits[feature] = low
        else:
            for function in range(functions):
                digits[function * feature_dim + feature] = low == function


@njit(cache=True, nogil=True, parallel=True)
def encode_rows(
    features: NDArray[np.floating],
    thresholds: NDArray[np.floating],
    rule: int,
    functions: int,
    sources: NDArray[np.int32],
    starts: NDArray[np.int64],
    radix: int,
    symbols: NDArray[np.unsignedinteger],
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
    samples, feature_dim = features.shape
    experts = starts.shape[0] - 1
    chunk = 64
    for part in prange((samples + chunk - 1) // chunk):
        digits = np.empty(functions * feature_dim, np.uint16)
        for sample in range(part * chunk, min(samples, (part + 1) * chunk)):
            _digits_of_row(features[sample], thresholds, rule, functions, digits)
            for expert in range(experts):
                index = np.int64(0)
                for position in range(starts[expert + 1] - 1, starts[expert] - 1, -1):
                    index = index * radix + digits[sources[position]]
                symbols[sample, expert] = index
