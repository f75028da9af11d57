"""Federated calibration: exact integer histograms per feature, added over clients.

``counts[f, b]`` is the number of samples whose feature f falls in bin b of a declared
grid; bin 0 is everything below it and the last bin everything above. Histograms add
up, so the thresholds that follow from the sum are the same for any partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.calibration import Vector, positive
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput
from safle.features import as_features
from safle.kernels.bins import add_to_bins

MAX_BINS = 1 << 16
MAX_CELLS = 1 << 28


@dataclass(frozen=True)
class Grid:
    """``bins`` equal bins over [low, high), the same for every feature and client."""

    low: float
    high: float
    bins: int = 256

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(f"grid [{self.low}, {self.high}); expected finite low < high")
        if not 1 <= self.bins <= MAX_BINS:
            raise InvalidInput(f"grid of {self.bins} bins; expected 1..{MAX_BINS}")

    @property
    def edges(self) -> Vector:
        """Bin borders, float64, (bins + 1,)."""
        return np.linspace(self.low, self.high, self.bins + 1)


@dataclass(frozen=True, eq=False)
class Histogram:
    """A `Calibration` from counts.

    Attributes
    ----------
    counts : int64, (feature_dim, bins + 2)
    """

    grid: Grid
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts = self.counts
        if counts.ndim != 2 or counts.shape[1] != self.grid.bins + 2 or not counts.shape[0]:
            raise InvalidInput(
                f"histogram counts have shape {counts.shape}; "
                f"expected (feature_dim, {self.grid.bins + 2})"
            )
        if (counts < 0).any():
            raise InvalidInput("a histogram holds negative counts")
        if len(np.unique(counts.sum(axis=1))) != 1:
            raise InvalidInput("the features of a histogram count different numbers of samples")
        counts.setflags(write=False)

    @staticmethod
    def of(features: ArrayLike | Iterable[ArrayLike], grid: Grid) -> Histogram:
        """Count one array, or an iterable of batches."""
        batches: Iterable[Any] = [features] if hasattr(features, "ndim") else features  # type: ignore[assignment]
        counts: NDArray[np.int64] | None = None
        rate = grid.bins / (grid.high - grid.low)
        for batch in batches:
            checked = as_features(batch, None if counts is None else len(counts))
            if counts is None:
                counts = np.zeros((checked.shape[1], grid.bins + 2), np.int64)
            add_to_bins(checked, grid.low, rate, grid.bins, counts)
        if counts is None:
            raise InvalidInput("no features to count; expected at least one batch")
        return Histogram(grid, counts)

    @property
    def feature_dim(self) -> int:
        return len(self.counts)

    @property
    def sample_count(self) -> int:
        return int(self.counts[0].sum())

    def __add__(self, other: Histogram) -> Histogram:
        if not isinstance(other, Histogram):
            return NotImplemented
        if (self.grid, self.feature_dim) != (other.grid, other.feature_dim):
            raise EncoderMismatch(
                f"histograms on {self.grid} with {self.feature_dim} features and on "
                f"{other.grid} with {other.feature_dim} cannot be added: count again on one grid"
            )
        if self.sample_count + other.sample_count > np.iinfo(np.int64).max:
            raise CountOverflow("the summed histogram would exceed int64")
        return Histogram(self.grid, self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Histogram)
            and self.grid == other.grid
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def thresholds(self, count: int) -> Vector:
        """Quantiles, linear inside a bin; beyond the grid, the grid's border."""
        self._require_samples()
        result = np.empty((count, self.feature_dim))
        cumulative = np.cumsum(self.counts, axis=1)
        edges = self.grid.edges
        for level in range(1, count + 1):
            # The target stays a fraction of integers, so no rounding moves a bin.
            target = level * self.sample_count
            bins = np.argmax(cumulative * (count + 1) >= target, axis=1)
            inside = np.clip(bins - 1, 0, self.grid.bins - 1)
            rows = np.arange(self.feature_dim)
            before = cumulative[rows, bins] - self.counts[rows, bins]
            share = (target / (count + 1) - before) / np.maximum(self.counts[rows, bins], 1)
            value = edges[inside] + share * (edges[inside + 1] - edges[inside])
            value = np.where(bins == 0, self.grid.low, value)
            result[level - 1] = np.where(bins == self.grid.bins + 1, self.grid.high, value)
        return np.maximum.accumulate(result, axis=0)

    def moments(self) -> tuple[Vector, Vector]:
        """Moments of the bin centres; samples beyond the grid count at its border."""
        self._require_samples()
        edges = self.grid.edges
        centres = np.concatenate([[edges[0]], (edges[1:] + edges[:-1]) / 2, [edges[-1]]])
        share = self.counts / self.sample_count
        mean = (share * centres).sum(axis=1)
        variance = (share * (centres - mean[:, None]) ** 2).sum(axis=1)
        return mean, positive(np.sqrt(variance))

    def _require_samples(self) -> None:
        if not self.sample_count:
            raise InvalidInput("the summed histogram is empty; thresholds need samples")
