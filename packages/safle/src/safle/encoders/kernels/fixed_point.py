"""Standardised features as fixed-point integers, one pass over memory: ``_native/encode.c``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

_NANOSECONDS = 1.5
"""Of one feature, about."""
_fix = Kernel(
    "fix",
    "features f4|f8[samples, dim]",
    "dim",
    "mean f8[dim]",
    "deviation f8[dim]",
    "scale",
    "root",
    "longest",
    "dense i2[samples, width]!",
    "width",
    pieces="samples",
)


def fix(
    features: NDArray[np.floating[Any]],
    mean: NDArray[np.float64],
    deviation: NDArray[np.float64],
    *,
    scale: float,
    root: bool,
    longest: int = 0,
    dense: NDArray[np.int16],
) -> None:
    """``dense[:, f] = round(scale * (t(x_f) - mean_f) / deviation_f)``, within int16.

    Parameters
    ----------
    features : float32 or float64, finite, (samples, feature_dim)
    root : whether t is the square root of the magnitude, with its sign, or nothing
    longest : than which no row of ``dense`` is, if not 0; see `Operations.shorten`
    dense : int16, (samples, at least feature_dim), changed in place
    """
    if dense.shape[1] < features.shape[1]:
        raise ValueError(f"{features.shape[1]} features do not fit {dense.shape[1]} columns")
    _fix(
        features,
        mean,
        deviation,
        float(scale),
        int(root),
        longest,
        dense,
        nanoseconds=_NANOSECONDS * features.size,
    )
