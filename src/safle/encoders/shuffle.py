"""The fixed seeded permutation P of the digits.

Digits are sorted by a 64-bit hash (SplitMix64) of seed and position: the same order
on every machine and library version, and easy to write in any language.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.errors import SettingsError

_MASK = (1 << 64) - 1


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """A permutation of 0..count-1, int64, (count,)."""
    if not 0 <= seed <= _MASK:
        raise SettingsError(f"seed {seed}; expected 0..2**64-1")
    with np.errstate(over="ignore"):
        state = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(
            1, count + 1, dtype=np.uint64
        )
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return np.argsort(state, kind="stable").astype(np.int64)
