"""Scores: the sum of one table row per expert, and a dense product.

Limit: the tables stay in L2, so a sample costs experts x classes additions.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray


@njit(cache=True, nogil=True, parallel=True)
def look_up(
    symbols: NDArray[np.unsignedinteger],
    bases: NDArray[np.int64],
    tables: NDArray[np.float32],
    scores: NDArray[np.float64],
) -> None:
    """``scores[s] += sum_e tables[bases[e] + symbols[s, e]]``.

    Sums are float64 and always run over experts in order, so the result does not
    depend on the number of threads or the batch.

    Parameters
    ----------
    symbols : uint8 or uint16, (samples, experts)
    tables : float32, (code_count, class_count)
    scores : float64, (samples, class_count), added to
    """
    samples, experts = symbols.shape
    classes = tables.shape[1]
    chunk = 32
    for part in prange((samples + chunk - 1) // chunk):
        for sample in range(part * chunk, min(samples, (part + 1) * chunk)):
            row = scores[sample]
            for expert in range(experts):
                table = tables[bases[expert] + symbols[sample, expert]]
                for k in range(classes):
                    row[k] += table[k]
