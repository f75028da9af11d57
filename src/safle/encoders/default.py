"""The encoder that safle takes where none is asked for: linear and random features.

Which was found to be the strongest head of one round: see docs/heads.md.
"""

from __future__ import annotations

from safle.encoders.calibration import Calibration
from safle.encoders.hybrid import HybridEncoder
from safle.encoders.linear import LinearEncoder
from safle.encoders.random_features import DEFAULT_BITS, DEFAULT_TERMS, RandomFeatureEncoder
from safle.encoders.transform import QUANTILES

UNITS_PER_FEATURE, MOST_UNITS = 16, 8_192
FRACTION_BITS = 6
"""Of the linear block: two more bits changed no accuracy, and cost a tenth of the bytes."""


def default_units(feature_dim: int) -> int:
    """Random features: sixteen a feature, at most 8,192."""
    return min(UNITS_PER_FEATURE * feature_dim, MOST_UNITS)


def default_transform(calibration: Calibration) -> str:
    """A square root for features that are never negative, as pooled activations are."""
    return "square-root" if (calibration.thresholds(QUANTILES) >= 0).all() else "none"


def default_terms(feature_dim: int) -> int:
    """The largest power of four up to `DEFAULT_TERMS` that there are features for."""
    return max(terms for terms in (1, 4, DEFAULT_TERMS) if terms <= feature_dim)


def default_encoder(
    calibration: Calibration,
    *,
    units: int | None = None,
    bits: int = DEFAULT_BITS,
    transform: str | None = None,
    seed: int = 0,
) -> HybridEncoder:
    """Linear features beside ``units`` random ones, both of the transformed features.

    Parameters
    ----------
    units : random features; by default `default_units`
    bits : of a random feature's code
    transform : by default `default_transform`
    seed : of the random features
    """
    dim = calibration.feature_dim
    linear = LinearEncoder.calibrated(
        calibration,
        fraction_bits=FRACTION_BITS,
        transform=default_transform(calibration) if transform is None else transform,
    )
    random = RandomFeatureEncoder(
        linear,
        count=default_units(dim) if units is None else units,
        terms=default_terms(dim),
        bits=bits,
        seed=seed,
    )
    return HybridEncoder([linear, random])
