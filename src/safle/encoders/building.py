"""An encoder from a calibration and settings by name: what commands and configurations say."""

from __future__ import annotations

from safle.encoders.base import Encoder
from safle.encoders.bucketing import BinaryOverlap, make_bucketing
from safle.encoders.calibration import Calibration
from safle.encoders.default import default_encoder
from safle.encoders.embedding import EmbeddingEncoder, default_buckets
from safle.encoders.hybrid import HybridEncoder
from safle.encoders.linear import LinearEncoder
from safle.encoders.random_features import DEFAULT_BITS
from safle.errors import SettingsError

KINDS = ("random-features", "embedding", "linear", "hybrid")


def build_encoder(
    calibration: Calibration,
    *,
    kind: str = "random-features",
    units: int | None = None,
    bits: int = DEFAULT_BITS,
    transform: str | None = None,
    bucketing: str = "binary-overlap",
    buckets: int | None = None,
    group_size: int | None = None,
    seed: int = 0,
    fraction_bits: int = 8,
) -> Encoder:
    """An encoder of one of `KINDS`; settings that its kind does not have are ignored.

    Parameters
    ----------
    units, bits : of random features; None for the number that fits the features
    transform : of features; None for the kind's own default
    bucketing : "binary-overlap", "one-hot" or "integer"
    buckets, group_size : None for the defaults that fit the number of features
    """
    if kind not in KINDS:
        raise SettingsError(f"kind {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "random-features":
        return default_encoder(calibration, units=units, bits=bits, transform=transform, seed=seed)
    linear = LinearEncoder.calibrated(
        calibration, fraction_bits=fraction_bits, transform=transform or "none"
    )
    if kind == "linear":
        return linear
    if buckets is None:
        # One threshold makes a thermometer, but a single bin tells nothing apart.
        least = 1 if bucketing == BinaryOverlap.name else 2
        buckets = max(least, default_buckets(calibration.feature_dim))
    embedding = EmbeddingEncoder.calibrated(
        calibration,
        bucketing=make_bucketing(bucketing, buckets),
        group_size=group_size,
        seed=seed,
    )
    return embedding if kind == "embedding" else HybridEncoder([linear, embedding])
