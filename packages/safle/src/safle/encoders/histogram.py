"""Federated calibration: exact integer histograms per feature, added over clients.

``counts[f, b]`` is the number of samples whose feature f falls in bin b of a declared
grid; bin 0 is everything below it and the last bin everything above. Histograms add
up, so the thresholds that follow from the sum are the same for any partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle._native import Kernel
from safle.basics.texts import require_type
from safle.encoders.calibration import Calibration, Vector, positive
from safle.encoders.features import as_features, as_names
from safle.encoders.frames import arrange_frame, frame_names
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput

MAX_BINS = 1 << 16
MAX_CELLS = 1 << 26
MAX_SAMPLES = 1 << 46
"""Times 65,536 levels, a cumulative count still fits int64."""
_add_to_bins = Kernel(
    "add_to_bins",
    "features f4|f8[samples, dim]; samples; dim; low f8[dim]; rate f8[dim]; bins",
    "counts i8[dim, bins + 2]!",
)


Ends = float | tuple[float, ...]
"""One number for all features, or one for each."""


@dataclass(frozen=True)
class Grid:
    """``bins`` equal bins over [low, high), the same for every client.

    Parameters
    ----------
    low, high : a number for all features, or as many as there are features

    Examples
    --------
    >>> Grid(0, 16, bins=4).edges.tolist()
    [0.0, 4.0, 8.0, 12.0, 16.0]
    >>> Grid([0, 100], [1, 500], bins=2).edges.tolist()
    [[0.0, 0.5, 1.0], [100.0, 300.0, 500.0]]
    """

    low: ArrayLike
    high: ArrayLike
    bins: int = 256

    def __post_init__(self) -> None:
        low, high = (np.asarray(end, np.float64) for end in (self.low, self.high))
        if low.shape != high.shape or low.ndim > 1 or not low.size:
            raise InvalidInput(
                f"grid with low of shape {low.shape} and high of shape {high.shape}; expected a "
                "number each, or as many of both as there are features"
            )
        allowed = hasattr(self.bins, "__index__") and 1 <= self.bins <= MAX_BINS
        if not allowed or self.bins * low.size > MAX_CELLS:
            raise InvalidInput(f"grid of {self.bins} bins; expected an integer, 1..{MAX_BINS}")
        unfit = _unfit(np.atleast_1d(low), np.atleast_1d(high), self.bins)
        if unfit.any():
            at = int(np.argmax(unfit))
            which = f" of feature {at}" if low.ndim else ""
            raise InvalidInput(
                f"grid [{low.flat[at]}, {high.flat[at]}){which}; expected finite low < high, and "
                f"{self.bins} bins that floating-point numbers tell apart"
            )
        # Tuples of plain numbers: grids are compared, and can be keys.
        object.__setattr__(self, "low", tuple(low.tolist()) if low.ndim else float(low))
        object.__setattr__(self, "high", tuple(high.tolist()) if high.ndim else float(high))
        object.__setattr__(self, "bins", int(self.bins))

    def __repr__(self) -> str:
        if self.feature_dim is None:
            return f"Grid(low={self.low!r}, high={self.high!r}, bins={self.bins})"
        return f"<Grid: {self.bins:,} bins over a range for each of {self.feature_dim:,} features>"

    @property
    def feature_dim(self) -> int | None:
        """How many features have a range of their own; None if one is for all."""
        return len(self.low) if isinstance(self.low, tuple) else None

    @property
    def rate(self) -> Vector:
        """Bins per unit, a number or (feature_dim,)."""
        return self.bins / (np.asarray(self.high) - np.asarray(self.low))

    @property
    def edges(self) -> Vector:
        """Bin borders, float64, (bins + 1,) or (feature_dim, bins + 1)."""
        low, high = (np.asarray(end, np.float64) for end in (self.low, self.high))
        return np.linspace(low, high, self.bins + 1, axis=-1)

    def to_json(self) -> list[Any]:
        """Low, high and bins, the numbers exactly: as hexadecimal text, or lists of it."""
        return [_hexadecimal(cast("Ends", end)) for end in (self.low, self.high)] + [self.bins]

    @staticmethod
    def from_json(content: Any) -> Grid:
        """The inverse of `to_json`; `ValueError`, `TypeError` or `InvalidInput` on nonsense."""
        low, high, bins = content
        return Grid(_from_hexadecimal(low), _from_hexadecimal(high), bins)


def _unfit(low: Vector, high: Vector, bins: int) -> NDArray[np.bool_]:
    """Where an end is no number, or neighbouring borders would be one number, (feature_dim,)."""
    with np.errstate(all="ignore"):
        width = high - low
        rate = bins / width
        unfit: NDArray[np.bool_] = ~((rate > 0) & (rate < np.inf))
        doubtful = width / bins < 8 * np.spacing(np.maximum(np.abs(low), np.abs(high)))
    # One at a time, and only in doubt: a file of few bytes could declare many.
    for at in np.flatnonzero(doubtful & ~unfit):
        unfit[at] = (np.diff(np.linspace(low[at], high[at], bins + 1)) <= 0).any()
    return unfit


def _hexadecimal(ends: Ends) -> str | list[str]:
    return [end.hex() for end in ends] if isinstance(ends, tuple) else ends.hex()


def _from_hexadecimal(ends: Any) -> Ends:
    return tuple(map(float.fromhex, ends)) if isinstance(ends, list) else float.fromhex(ends)


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Calibration):
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
        _check_width(self.grid, counts)
        if (counts < 0).any():
            raise InvalidInput("a histogram holds negative counts")
        # In floating point: the integer sum could wrap around.
        if counts.sum(axis=1, dtype=np.float64).max() > MAX_SAMPLES:
            raise CountOverflow(f"a histogram of more than {MAX_SAMPLES} samples")
        if len(np.unique(counts.sum(axis=1))) != 1:
            raise InvalidInput("the features of a histogram count different numbers of samples")
        object.__setattr__(self, "feature_dim", len(counts))
        object.__setattr__(self, "names", as_names(self.names, len(counts)))
        counts.setflags(write=False)

    @staticmethod
    def of(
        features: ArrayLike | Iterable[ArrayLike], grid: Grid, *, names: Sequence[str] = ()
    ) -> Histogram:
        """Count one array, or an iterable of batches."""
        require_type("grid", grid, Grid)
        whole = hasattr(features, "ndim") or frame_names(features)
        batches: Iterable[Any] = [features] if whole else features  # type: ignore[assignment]
        counts: NDArray[np.int64] | None = None
        for batch in batches:
            names = names or frame_names(batch)
            arranged = arrange_frame(batch, names)
            checked = as_features(arranged, None if counts is None else len(counts))
            if counts is None:
                counts = np.zeros((checked.shape[1], grid.bins + 2), np.int64)
                _check_width(grid, counts)
                low, rate = (np.broadcast_to(x, len(counts)) for x in (grid.low, grid.rate))
            # In bin 1 + floor((value - low) * rate), 0 below the grid, bins + 1 from its end on.
            _add_to_bins(checked, low, rate, grid.bins, counts)
        if counts is None:
            raise InvalidInput("no features to count; expected at least one batch")
        return Histogram(grid, counts, tuple(names))

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
        targets = np.arange(1, count + 1) * self.sample_count
        for feature, (counts, edges) in enumerate(zip(self.counts, self._edges, strict=True)):
            cumulative = np.cumsum(counts)
            # The target stays a fraction of integers, so no rounding moves a bin.
            bins = np.searchsorted(cumulative * (count + 1), targets)
            inside = np.clip(bins - 1, 0, self.grid.bins - 1)
            before = cumulative[bins] - counts[bins]
            share = (targets / (count + 1) - before) / np.maximum(counts[bins], 1)
            value = edges[inside] + share * (edges[inside + 1] - edges[inside])
            value = np.where(bins == 0, edges[0], value)
            result[:, feature] = np.where(bins == self.grid.bins + 1, edges[-1], value)
        return np.maximum.accumulate(result, axis=0)

    def moments(self) -> tuple[Vector, Vector]:
        """Moments of the bin centres; samples beyond the grid count at its border."""
        self._require_samples()
        edges = self._edges
        inner = (edges[:, 1:] + edges[:, :-1]) / 2
        centres = np.concatenate([edges[:, :1], inner, edges[:, -1:]], axis=1)
        share = self.counts / self.sample_count
        mean = (share * centres).sum(axis=1)
        variance = (share * (centres - mean[:, None]) ** 2).sum(axis=1)
        return mean, positive(np.sqrt(variance))

    def coarse(self) -> NDArray[np.int64]:
        """Features, ascending, all of whose samples fall into one or two bins.

        Those have one or two values, or the grid is too wide for them.
        """
        filled: NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return np.flatnonzero((filled > 0) & (filled <= 2))

    @property
    def _edges(self) -> Vector:
        """Bin borders of every feature, (feature_dim, bins + 1)."""
        return np.broadcast_to(self.grid.edges, (self.feature_dim, self.grid.bins + 1))

    def _require_samples(self) -> None:
        if not self.sample_count:
            raise InvalidInput("the summed histogram is empty; thresholds need samples")


def _check_width(grid: Grid, counts: NDArray[np.int64]) -> None:
    if grid.feature_dim not in (None, len(counts)):
        raise InvalidInput(
            f"{len(counts)} features on a grid with ranges for {grid.feature_dim}; expected a "
            "range for each"
        )


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "no names"
