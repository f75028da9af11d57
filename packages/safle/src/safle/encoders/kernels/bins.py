"""Histogram counts per feature on an even grid of its own."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def add_to_bins(
    features: NDArray[np.floating],
    low: NDArray[np.float64],
    rate: NDArray[np.float64],
    bins: int,
    counts: NDArray[np.int64],
) -> None:
    """Add every value to ``counts[feature, 1 + floor((value - low[feature]) * rate[feature])]``.

    Values below the grid go to bin 0, values at or above its end to bin ``bins + 1``.

    Parameters
    ----------
    features : float, (samples, feature_dim)
    low, rate : of the feature's grid, float64, (feature_dim,)
    counts : int64, (feature_dim, bins + 2), added to
    """
    for sample in range(features.shape[0]):
        for feature in range(features.shape[1]):
            place = (np.float64(features[sample, feature]) - low[feature]) * rate[feature]
            if place < 0.0:
                counts[feature, 0] += 1
            elif place >= bins:
                counts[feature, bins + 1] += 1
            else:
                counts[feature, np.int64(place) + 1] += 1
