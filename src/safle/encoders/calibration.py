"""Calibration: where thresholds and scales come from. Feeds the encoders.

Every client must use the same thresholds, whatever it holds: they come from a
declared range, declared moments, a public sample, or an exact integer histogram
summed over clients beforehand (`safle.encoders.histogram`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.encoders.features import as_features
from safle.encoders.names import as_names
from safle.errors import InvalidInput

Vector = NDArray[np.float64]


class Calibration(Protocol):
    """What an encoder asks of the features' distribution."""

    @property
    def feature_dim(self) -> int: ...

    def thresholds(self, count: int) -> Vector:
        """Non-decreasing thresholds, float64, (count, feature_dim)."""

    def moments(self) -> tuple[Vector, Vector]:
        """Mean and deviation, float64, (feature_dim,) each; a deviation is positive."""


def _levels(count: int) -> Vector:
    return np.arange(1, count + 1) / (count + 1)


def positive(deviation: Vector) -> Vector:
    """Constant features have no scale of their own: 1 keeps them finite and harmless."""
    return np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True)
class DeclaredRange:
    """Thresholds spread evenly over [low, high], the same for every feature.

    >>> DeclaredRange(0, 16, feature_dim=2).thresholds(3).T.tolist()
    [[4.0, 8.0, 12.0], [4.0, 8.0, 12.0]]
    """

    low: float
    high: float
    feature_dim: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(f"range [{self.low}, {self.high}]; expected finite low < high")
        if self.feature_dim < 1:
            raise InvalidInput(f"feature_dim is {self.feature_dim}; expected at least 1")

    def thresholds(self, count: int) -> Vector:
        column = self.low + (self.high - self.low) * _levels(count)
        return np.repeat(column[:, None], self.feature_dim, axis=1)

    def moments(self) -> tuple[Vector, Vector]:
        ones = np.ones(self.feature_dim)
        # Mean and deviation of the uniform distribution on the range.
        return ones * (self.low + self.high) / 2, ones * (self.high - self.low) / np.sqrt(12)


@dataclass(frozen=True, repr=False)
class DeclaredMoments:
    """Gaussian quantiles of a declared mean and deviation per feature.

    >>> DeclaredMoments([5.0, 100.0], [2.0, 15.0]).thresholds(1).tolist()
    [[5.0, 100.0]]
    """

    mean: Vector
    deviation: Vector

    def __post_init__(self) -> None:
        mean = np.atleast_1d(np.asarray(self.mean, np.float64))
        deviation = np.atleast_1d(np.asarray(self.deviation, np.float64))
        if mean.ndim != 1 or not mean.size or deviation.shape not in {(1,), mean.shape}:
            raise InvalidInput(
                f"mean has shape {mean.shape} and deviation {deviation.shape}; expected one "
                "number a feature, or one deviation for all"
            )
        deviation = np.broadcast_to(deviation, mean.shape)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()) or (deviation < 0).any():
            raise InvalidInput("moments must be finite, and deviations not negative")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "deviation", deviation)

    @property
    def feature_dim(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"<DeclaredMoments: {self.feature_dim:,} features>"

    def thresholds(self, count: int) -> Vector:
        # A third of the start-up time of every command, and only this needs it.
        from scipy.special import ndtri

        result: Vector = self.mean + self.deviation * ndtri(_levels(count))[:, None]
        return result

    def moments(self) -> tuple[Vector, Vector]:
        return self.mean, positive(self.deviation)


class PublicSample:
    """Quantiles and moments of features that everyone may see; ``names`` if they have some.

    >>> PublicSample([[1.0], [2.0], [9.0]]).thresholds(1).tolist()
    [[2.0]]
    """

    def __init__(self, features: ArrayLike, *, names: Sequence[str] = ()) -> None:
        sample = as_features(features)
        self.names = as_names(names, sample.shape[1])
        if not sample.size:
            raise InvalidInput("the public sample is empty; expected at least one sample")
        self._sample = sample.astype(np.float64)

    @property
    def feature_dim(self) -> int:
        return int(self._sample.shape[1])

    def __repr__(self) -> str:
        return f"<PublicSample: {len(self._sample):,} samples, {self.feature_dim:,} features>"

    def thresholds(self, count: int) -> Vector:
        return np.quantile(self._sample, _levels(count), axis=0)

    def moments(self) -> tuple[Vector, Vector]:
        # Rounding of the mean would give a constant feature a deviation of 1e-17.
        varies = self._sample.max(axis=0) > self._sample.min(axis=0)
        deviation = np.where(varies, self._sample.std(axis=0), 0.0)
        return self._sample.mean(axis=0), positive(deviation)
