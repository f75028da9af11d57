"""Federated calibration: exact integer histograms per feature, added over clients.

``counts[f, b]`` is the number of samples whose feature f falls in bin b of a declared
grid; bin 0 is everything below it and the last bin everything above. Histograms add
up, so the thresholds that follow from the sum are the same for any partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle._internal.arguments import require_type
from safle.encoders.calibration import Vector, positive
from safle.encoders.features import as_features, as_integer
from safle.encoders.kernels.bins import add_to_bins
from safle.encoders.names import as_names
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput

MAX_BINS = 1 << 16
MAX_CELLS = 1 << 26
MAX_SAMPLES = 1 << 46
"""Times 65,536 levels, a cumulative count still fits int64."""


@dataclass(frozen=True)
class Grid:
    """``bins`` equal bins over [low, high), the same for every feature and client.

    >>> Grid(0, 16, bins=4).edges.tolist()
    [0.0, 4.0, 8.0, 12.0, 16.0]
    """

    low: float
    high: float
    bins: int = 256

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(f"grid [{self.low}, {self.high}); expected finite low < high")
        object.__setattr__(self, "bins", as_integer("bins", self.bins))
        if not 1 <= self.bins <= MAX_BINS:
            raise InvalidInput(f"grid of {self.bins} bins; expected 1..{MAX_BINS}")
        if not 0 < self.rate < np.inf or (np.diff(self.edges) <= 0).any():
            raise InvalidInput(
                f"grid [{self.low}, {self.high}) is too narrow or too wide for {self.bins} bins "
                "of floating-point numbers"
            )

    @property
    def rate(self) -> float:
        """Bins per unit."""
        with np.errstate(over="ignore"):
            return float(self.bins / (np.float64(self.high) - np.float64(self.low)))

    @property
    def edges(self) -> Vector:
        """Bin borders, float64, (bins + 1,)."""
        return np.linspace(self.low, self.high, self.bins + 1)


@dataclass(frozen=True, eq=False, repr=False)
class Histogram:
    """A `Calibration` from counts.

    Attributes
    ----------
    counts : int64, (feature_dim, bins + 2)
    names : of the features, or empty

    Examples
    --------
    >>> grid = Grid(0, 4, bins=4)
    >>> total = Histogram.of(np.array([[0.5], [2.5]]), grid) + Histogram.of(np.array([[9.0]]), grid)
    >>> total.counts.tolist()
    [[0, 1, 0, 1, 0, 1]]
    """

    grid: Grid
    counts: NDArray[np.int64]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = self.counts
        if counts.ndim != 2 or counts.shape[1] != self.grid.bins + 2 or not counts.shape[0]:
            raise InvalidInput(
                f"histogram counts have shape {counts.shape}; "
                f"expected (feature_dim, {self.grid.bins + 2})"
            )
        if (counts < 0).any():
            raise InvalidInput("a histogram holds negative counts")
        # In floating point: the integer sum could wrap around.
        if counts.sum(axis=1, dtype=np.float64).max() > MAX_SAMPLES:
            raise CountOverflow(f"a histogram of more than {MAX_SAMPLES} samples")
        if len(np.unique(counts.sum(axis=1))) != 1:
            raise InvalidInput("the features of a histogram count different numbers of samples")
        object.__setattr__(self, "names", as_names(self.names, len(counts)))
        counts.setflags(write=False)

    @staticmethod
    def of(
        features: ArrayLike | Iterable[ArrayLike], grid: Grid, *, names: Sequence[str] = ()
    ) -> Histogram:
        """Count one array, or an iterable of batches."""
        require_type("grid", grid, Grid)
        batches: Iterable[Any] = [features] if hasattr(features, "ndim") else features  # type: ignore[assignment]
        counts: NDArray[np.int64] | None = None
        for batch in batches:
            checked = as_features(batch, None if counts is None else len(counts))
            if counts is None:
                counts = np.zeros((checked.shape[1], grid.bins + 2), np.int64)
            add_to_bins(checked, grid.low, grid.rate, grid.bins, counts)
        if counts is None:
            raise InvalidInput("no features to count; expected at least one batch")
        return Histogram(grid, counts, tuple(names))

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
        if self.names != other.names:
            raise EncoderMismatch(
                "histograms of features of different names cannot be added: count the same "
                f"columns everywhere (here {_shown(self.names)}, there {_shown(other.names)})"
            )
        return Histogram(self.grid, self.counts + other.counts, self.names)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Histogram)
            and (self.grid, self.names) == (other.grid, other.names)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        samples, features = f"{self.sample_count:,} samples", f"{self.feature_dim:,} features"
        return f"<Histogram: {samples}, {features}, {self.grid}>"

    def thresholds(self, count: int) -> Vector:
        """Quantiles, linear inside a bin; beyond the grid, the grid's border."""
        self._require_samples()
        result = np.empty((count, self.feature_dim))
        edges = self.grid.edges
        targets = np.arange(1, count + 1) * self.sample_count
        for feature, counts in enumerate(self.counts):
            cumulative = np.cumsum(counts)
            # The target stays a fraction of integers, so no rounding moves a bin.
            bins = np.searchsorted(cumulative * (count + 1), targets)
            inside = np.clip(bins - 1, 0, self.grid.bins - 1)
            before = cumulative[bins] - counts[bins]
            share = (targets / (count + 1) - before) / np.maximum(counts[bins], 1)
            value = edges[inside] + share * (edges[inside + 1] - edges[inside])
            value = np.where(bins == 0, self.grid.low, value)
            result[:, feature] = np.where(bins == self.grid.bins + 1, self.grid.high, value)
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


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "no names"
