"""SplitMix64: the hash behind every seeded choice, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def hashes(first: int, count: int, seed: int) -> NDArray[np.uint64]:
    """SplitMix64 outputs of a seed at positions ``first`` to ``first + count - 1``, uint64."""
    with np.errstate(over="ignore"):
        state = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(
            first + 1, first + count + 1, dtype=np.uint64
        )
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """A permutation of 0..count-1, int64, (count,)."""
    return np.argsort(hashes(0, count, seed), kind="stable").astype(np.int64)
