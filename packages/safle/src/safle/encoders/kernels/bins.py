"""Histogram counts per feature on an even grid of its own: ``_native/encode.c``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

_add_to_bins = Kernel(
    "add_to_bins",
    "features f4|f8[samples, dim]",
    "samples",
    "dim",
    "low f8[dim]",
    "rate f8[dim]",
    "bins",
    "counts i8[dim, bins + 2]!",
)


def add_to_bins(
    features: NDArray[np.floating[Any]],
    low: NDArray[np.float64],
    rate: NDArray[np.float64],
    bins: int,
    counts: NDArray[np.int64],
) -> None:
    """Add every value to ``counts[feature, 1 + floor((value - low[feature]) * rate[feature])]``.

    Values below the grid go to bin 0, values at or above its end to bin ``bins + 1``.

    Parameters
    ----------
    features : float, finite, (samples, feature_dim)
    low, rate : of the feature's grid, float64, (feature_dim,)
    counts : int64, (feature_dim, bins + 2), added to
    """
    _add_to_bins(features, low, rate, bins, counts)
