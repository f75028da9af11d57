"""The paper's encoder: bucket every feature, shuffle, group, index.

``b = [B_1(x_1)..B_L(x_1), ..., B_L(x_d)]``, permuted by P, cut into experts of G
digits; expert j's symbol is ``idx_j = sum_i g_{j,i} k^(i-1)`` in {0..k^G-1}. Where G
does not divide the digits, the last expert is a smaller one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle._internal.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.bucketing import BinaryOverlap, Bucketing, make_bucketing
from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EMBEDDING_DIM, MAX_TABLE_SIZE, Codes, Layout
from safle.encoders.features import as_integer
from safle.encoders.kernels.encode import encode_rows
from safle.encoders.shuffle import permutation
from safle.errors import SettingsError

DEFAULT_BUCKETS = 8
DEFAULT_EMBEDDING_DIM = 12_288
DEFAULT_GROUP_LIMIT = 6
"""Tables of more than 64 rows are mostly unseen at a client's sample counts."""


class EmbeddingEncoder(Encoder):
    """Features -> one symbol per expert.

    Parameters
    ----------
    thresholds : float64, (threshold_count, feature_dim), non-decreasing along axis 0
    bucketing : value -> digits
    group_size : G, digits per expert
    seed : of the permutation
    """

    kind = "embedding"

    def __init__(
        self,
        thresholds: NDArray[np.float64],
        *,
        bucketing: Bucketing,
        group_size: int,
        seed: int = 0,
    ) -> None:
        self.thresholds = np.array(thresholds, np.float64, order="C")
        self.bucketing = bucketing
        self.group_size = as_integer("group_size", group_size)
        self.seed = as_integer("seed", seed)
        _check_thresholds(self.thresholds, bucketing)
        self.feature_dim = int(self.thresholds.shape[1])
        _check_sizes(self.feature_dim, bucketing, self.group_size)
        self._sources = self._digit_positions()

    @classmethod
    def calibrated(
        cls,
        calibration: Calibration,
        *,
        bucketing: Bucketing | None = None,
        group_size: int | None = None,
        seed: int = 0,
    ) -> Self:
        """An encoder with thresholds from ``calibration``.

        By default a thermometer of 8 thresholds (fewer for very wide features) and the
        largest groups of up to 6 digits that keep about 12,000 columns or fewer.
        """
        features = calibration.feature_dim
        chosen = bucketing or BinaryOverlap(default_buckets(features))
        if group_size is None:
            group_size = default_group_size(features, chosen)
        return cls(
            calibration.thresholds(chosen.threshold_count),
            bucketing=chosen,
            group_size=group_size,
            seed=seed,
        )

    @cached_property
    def layout(self) -> Layout:
        digits = self.feature_dim * self.bucketing.functions
        whole, rest = divmod(digits, self.group_size)
        sizes = [self.bucketing.radix**self.group_size] * whole
        return Layout(tuple(sizes + [self.bucketing.radix**rest] * (rest > 0)))

    def settings(self) -> dict[str, Any]:
        return {
            "bucketing": self.bucketing.name,
            "buckets": self.bucketing.buckets,
            "group_size": self.group_size,
            "seed": self.seed,
        }

    def arrays(self) -> Arrays:
        return {"thresholds": self.thresholds}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        numbers = [settings[name] for name in ("buckets", "group_size", "seed")]
        if not all(type(number) is int for number in numbers):
            raise SettingsError("buckets, group_size and seed must be integers")
        return cls(
            arrays["thresholds"],
            bucketing=make_bucketing(settings["bucketing"], settings["buckets"]),
            group_size=settings["group_size"],
            seed=settings["seed"],
        )

    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        # Every bucket as likely as any other: thresholds are quantiles. A value on a
        # threshold lies in the bucket below it.
        above = np.nextafter(self.thresholds[-1:], np.inf)
        values = np.concatenate([self.thresholds, above])
        bucket = generator.integers(0, len(values), (samples, self.feature_dim))
        return np.take_along_axis(values, bucket, axis=0)

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        layout = self.layout
        narrow = max(layout.table_sizes) <= 256
        symbols = np.empty((len(features), layout.experts), np.uint8 if narrow else np.uint16)
        digits = self.feature_dim * self.bucketing.functions
        starts = np.minimum(np.arange(layout.experts + 1) * self.group_size, digits)
        encode_rows(
            features,
            _thresholds_for(features.dtype, self.thresholds),
            self.bucketing.rule,
            self.bucketing.functions,
            self._sources,
            starts,
            self.bucketing.radix,
            symbols,
        )
        return Codes(symbols, np.empty((len(features), 0), np.int16))

    def _digit_positions(self) -> NDArray[np.int32]:
        """Permuted digits (paper order f*L + l) as positions in the kernel's order l*d + f."""
        functions = self.bucketing.functions
        shuffled = permutation(self.feature_dim * functions, self.seed)
        feature, function = np.divmod(shuffled, functions)
        return (function * self.feature_dim + feature).astype(np.int32)


def default_buckets(feature_dim: int) -> int:
    """8 thresholds a feature, halved until two columns a digit stay affordable."""
    buckets = DEFAULT_BUCKETS
    while buckets > 1 and 2 * buckets * feature_dim > 2 * DEFAULT_EMBEDDING_DIM:
        buckets //= 2
    return buckets


def default_group_size(feature_dim: int, bucketing: Bucketing) -> int:
    """The largest G up to 6 with no more than about 12,000 columns, but at least 1."""
    digits = feature_dim * bucketing.functions
    fitting = [
        size
        for size in range(1, min(DEFAULT_GROUP_LIMIT, digits) + 1)
        if bucketing.radix**size <= MAX_TABLE_SIZE
        and -(-digits // size) * bucketing.radix**size <= DEFAULT_EMBEDDING_DIM
    ]
    return max(fitting, default=1)


def _thresholds_for(dtype: Any, thresholds: NDArray[np.float64]) -> NDArray[Any]:
    """Thresholds in the features' own precision, rounded down.

    For a float32 x, ``x > t`` and ``x > largest float32 <= t`` are the same question,
    so float32 and float64 copies of the same features get the same codes.
    """
    if dtype == np.float64:
        return thresholds
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
    above = rounded.astype(np.float64) > thresholds
    lowered: NDArray[Any] = np.where(above, below, rounded)
    return lowered


def _check_thresholds(thresholds: NDArray[np.float64], bucketing: Bucketing) -> None:
    if thresholds.ndim != 2 or not thresholds.shape[1]:
        raise SettingsError(
            f"thresholds have shape {thresholds.shape}; expected (threshold_count, feature_dim)"
        )
    if len(thresholds) != bucketing.threshold_count:
        raise SettingsError(
            f"{len(thresholds)} thresholds a feature; {bucketing.name} bucketing with "
            f"{bucketing.buckets} buckets needs {bucketing.threshold_count}"
        )
    if not np.isfinite(thresholds).all() or (np.diff(thresholds, axis=0) < 0).any():
        raise SettingsError("thresholds must be finite and must not decrease")


def _check_sizes(feature_dim: int, bucketing: Bucketing, group_size: int) -> None:
    digits = feature_dim * bucketing.functions
    if not 1 <= group_size <= digits:
        raise SettingsError(
            f"group_size {group_size}; expected 1..{digits} "
            f"({feature_dim} features x {bucketing.functions} digits)"
        )
    # Compared before the power is taken: k^G of a hostile file could fill the memory.
    if group_size > 16 or bucketing.radix**group_size > MAX_TABLE_SIZE:
        raise SettingsError(
            f"k^G = {bucketing.radix}^{group_size} rows a table is more than {MAX_TABLE_SIZE}; "
            "use a smaller group_size or fewer buckets"
        )
    columns = -(-digits // group_size) * bucketing.radix**group_size
    if columns > MAX_EMBEDDING_DIM:
        raise SettingsError(
            f"{-(-digits // group_size)} experts x {bucketing.radix}^{group_size} rows = "
            f"{columns} columns is more than {MAX_EMBEDDING_DIM}"
        )
