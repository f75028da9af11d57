"""Calibration: where the thresholds and scales of encoders come from.

Every client must use the same thresholds, whatever its data: they come from a
declared range, declared moments, a public sample, or an exact integer histogram
summed over clients beforehand (`safle.statistics.histogram`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.encoders.codes import MAX_EXPERTS
from safle.errors import InvalidInput
from safle.tables.checks import ClassName, as_features, as_names
from safle.tables.outside import Ranges
from safle.tables.sources import arrange_frame, frame_names

Vector = NDArray[np.float64]


class Calibration(ABC):
    """What an encoder is made from: the features' distribution, and declarations about them."""

    feature_dim: int
    names: Sequence[str] = ()
    """The names of the features; empty if they have none."""
    ranges: Ranges | None = None
    """Lowest and highest expected values of features with names, if declared."""
    classes: tuple[ClassName, ...] = ()
    """The only labels that are allowed; empty if all are."""

    @abstractmethod
    def thresholds(self, count: int) -> Vector:
        """Non-decreasing thresholds, float64, (count, feature_dim)."""

    @abstractmethod
    def moments(self) -> tuple[Vector, Vector]:
        """Mean and deviation, float64, (feature_dim,) each; a deviation is positive."""


def _probabilities(count: int) -> Vector:
    return np.arange(1, count + 1) / (count + 1)


def replace_zeros(deviation: Vector) -> Vector:
    """The deviations, with 1 for 0: dividing a constant feature by it stays finite."""
    return np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True, eq=False)
class DeclaredRange(Calibration):
    """Thresholds spread evenly over [low, high]: one range for all features, or one for each.

    Parameters
    ----------
    low, high : a number, or float64, (feature_dim,)
    feature_dim : how many features there are; not needed if ``low`` or ``high`` is an array
    names : the names of the features, or empty

    Examples
    --------
    >>> DeclaredRange(0, 16, feature_dim=2).thresholds(3).T.tolist()
    [[4.0, 8.0, 12.0], [4.0, 8.0, 12.0]]
    >>> DeclaredRange([0, 100], [1, 500], names=["ratio", "platelets"]).thresholds(1).tolist()
    [[0.5, 300.0]]
    """

    low: ArrayLike
    high: ArrayLike
    feature_dim: int = 0
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        low, high = (np.asarray(end, np.float64) for end in (self.low, self.high))
        dims = {end.size for end in (low, high) if end.ndim}
        dims |= {self.feature_dim} if self.feature_dim or not dims else set()
        if len(dims) > 1 or min(dims) < 1 or max(low.ndim, high.ndim) > 1:
            raise InvalidInput(
                f"feature_dim is {self.feature_dim}, low has shape {low.shape}, high {high.shape}; "
                "expected feature_dim at least 1, and one range or as many as there are features"
            )
        (dim,) = dims
        if dim > MAX_EXPERTS:
            raise InvalidInput(f"{dim} features; expected at most {MAX_EXPERTS}")
        low, high = np.broadcast_to(low, dim), np.broadcast_to(high, dim)
        wrong = ~(np.isfinite(low) & np.isfinite(high) & (low < high))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InvalidInput(
                f"range [{low[first]:g}, {high[first]:g}]; expected finite low < high"
            )
        for name, value in (("low", low), ("high", high), ("feature_dim", dim)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "names", as_names(self.names, dim))
        if self.names:
            object.__setattr__(self, "ranges", (low, high))

    def thresholds(self, count: int) -> Vector:
        low, high = np.asarray(self.low), np.asarray(self.high)
        return low + (high - low) * _probabilities(count)[:, None]

    def moments(self) -> tuple[Vector, Vector]:
        low, high = np.asarray(self.low), np.asarray(self.high)
        # Mean and deviation of the uniform distribution on the range.
        return (low + high) / 2, (high - low) / np.sqrt(12)


@dataclass(frozen=True, repr=False)
class DeclaredMoments(Calibration):
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
                "number per feature, or one deviation for all"
            )
        deviation = np.broadcast_to(deviation, mean.shape)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()) or (deviation < 0).any():
            raise InvalidInput("moments must be finite, and deviations not negative")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "deviation", deviation)
        object.__setattr__(self, "feature_dim", len(mean))

    def __repr__(self) -> str:
        return f"<DeclaredMoments: {self.feature_dim:,} features>"

    def thresholds(self, count: int) -> Vector:
        # SciPy takes a third of a command's start-up time, and only this method needs it.
        from scipy.special import ndtri

        result: Vector = self.mean + self.deviation * ndtri(_probabilities(count))[:, None]
        return result

    def moments(self) -> tuple[Vector, Vector]:
        return self.mean, replace_zeros(self.deviation)


class PublicSample(Calibration):
    """Quantiles and moments of features that everyone may see; missing values are left out.

    ``names`` are the names of the features, by default those of a frame's columns.

    >>> PublicSample([[1.0], [2.0], [9.0]]).thresholds(1).tolist()
    [[2.0]]
    """

    def __init__(self, features: ArrayLike, *, names: Sequence[str] = ()) -> None:
        names = names or frame_names(features)
        sample = as_features(arrange_frame(features, names), gaps=True)
        self.feature_dim = sample.shape[1]
        self.names = as_names(names, self.feature_dim)
        if not sample.size:
            raise InvalidInput("the public sample is empty; expected at least one sample")
        # A feature whose values are all missing counts as a constant.
        self._sample = np.where(np.isnan(sample).all(axis=0), 0.0, sample.astype(np.float64))
        self._gaps = bool(np.isnan(self._sample).any())

    def __repr__(self) -> str:
        return f"<PublicSample: {len(self._sample):,} samples, {self.feature_dim:,} features>"

    def thresholds(self, count: int) -> Vector:
        quantile = np.nanquantile if self._gaps else np.quantile
        return quantile(self._sample, _probabilities(count), axis=0)

    def moments(self) -> tuple[Vector, Vector]:
        mean, std = (np.nanmean, np.nanstd) if self._gaps else (np.mean, np.std)
        # Rounding of the mean would give a constant feature a deviation of 1e-17.
        varies = np.nanmax(self._sample, axis=0) > np.nanmin(self._sample, axis=0)
        deviation = np.where(varies, std(self._sample, axis=0), 0.0)
        return mean(self._sample, axis=0), replace_zeros(deviation)
