"""Weights as multiples of one power of two: sums of them are exact, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.model.kernels.tables import MOST_BITS


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
