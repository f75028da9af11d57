"""Declared monotone transforms of features, before they are standardised.

Pooled activations of a network are skewed: many small values, few large ones. A square
root (of the magnitude, with the sign kept) makes them more alike, at no cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.encoders.calibration import Calibration
from safle.encoders.operations import NumpyOperations

Vector = NDArray[np.float64]
TRANSFORMS = ("none", "square-root")
QUANTILES = 255
"""Points of a feature's distribution that the moments of a transformed one are taken from."""


def restored(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """What the transform of this name maps to ``values``, but for rounding."""
    return np.copysign(values**2, values) if name == "square-root" else values


def suiting_transform(calibration: Calibration) -> str:
    """A square root of features that are never negative, as pooled activations are."""
    never_negative = (calibration.thresholds(QUANTILES) >= 0).all()
    return "square-root" if never_negative else "none"


def transformed_moments(calibration: Calibration, name: str) -> tuple[Vector, Vector]:
    """Mean and deviation of transformed features, float64, (feature_dim,) each.

    Every calibration knows quantiles; those of a monotone transform are the transformed ones.
    """
    if name == "none":
        return calibration.moments()
    points = NumpyOperations().root(calibration.thresholds(QUANTILES))
    deviation = points.std(axis=0)
    # Rounding of the mean would give a constant feature a deviation of 1e-17.
    varies = points.max(axis=0) > points.min(axis=0)
    return points.mean(axis=0), np.where(varies, deviation, 1.0)
