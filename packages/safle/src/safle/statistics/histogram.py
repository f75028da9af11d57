"""Federated calibration: exact integer histograms per feature, added over clients.

``counts[f, b]`` is the number of samples whose feature f falls in bin b of its declared range;
bin 0 is everything below the range and the last bin everything above. Histograms add up, so the
thresholds that follow from the sum are the same for any partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle._native import Kernel
from safle.basics.memory import require_free_memory
from safle.basics.settings import as_settings
from safle.basics.texts import name_some, require_type
from safle.encoders.calibration import Calibration, Vector, as_ends, replace_zeros
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput, InvariantError
from safle.statistics.exposure import Exposure, expose_cells
from safle.tables.checks import ClassName, as_features, as_names
from safle.tables.contract import Contract
from safle.tables.sources import arrange_frame, frame_names

MAX_BINS = 1 << 16
MAX_CELLS = 1 << 26
MAX_SAMPLES = 1 << 46
"""Times 65,536 thresholds, a cumulative count still fits int64."""
_add_to_bins = Kernel(
    "add_to_bins",
    "features f4|f8[samples, dim]; samples; dim; low f8[dim]; rate f8[dim]; bins",
    "counts i8[dim, bins + 2]!",
)


def _unfit(low: Vector, high: Vector, bins: int) -> NDArray[np.bool_]:
    """Features whose bins are infinite or empty, or have equal borders, (feature_dim,)."""
    with np.errstate(all="ignore"):
        width = high - low
        rate = bins / width
        unfit: NDArray[np.bool_] = ~((rate > 0) & (rate < np.inf))
        doubtful = width / bins < 8 * np.spacing(np.maximum(np.abs(low), np.abs(high)))
    # One feature at a time, and only in doubt: a file of few bytes could declare many bins.
    for feature in np.flatnonzero(doubtful & ~unfit):
        borders = np.linspace(low[feature], high[feature], bins + 1)
        unfit[feature] = (np.diff(borders) <= 0).any()
    return unfit


def _from_hexadecimal(ends: str | list[str]) -> ArrayLike:
    return [*map(float.fromhex, ends)] if isinstance(ends, list) else float.fromhex(ends)


class _Declaration(msgspec.Struct, forbid_unknown_fields=True):
    grid: tuple[str | list[str], str | list[str], int]
    features: Annotated[int, msgspec.Meta(ge=1)]
    names: list[str] = []


@dataclass(frozen=True, eq=False, repr=False)
class Histogram:
    """How many samples have each feature in each of equal bins over [low, high).

    `Histogram.empty` declares the bins, the same for every client; `count` counts features in them.

    Attributes
    ----------
    low, high : float64, (feature_dim,), the ends of the range of each feature
    counts : int64, (feature_dim, bins + 2); below the range, in each bin, from its end on
    names : of the features; empty if they have none

    Examples
    --------
    >>> zero = Histogram.empty(0, 4, feature_dim=1, bins=4)
    >>> total = zero.count(np.array([[0.5], [2.5]])) + zero.count(np.array([[9.0]]))
    >>> total.counts.tolist()
    [[0, 1, 0, 1, 0, 1]]
    """

    format: ClassVar[str] = "histogram"
    low: Vector
    high: Vector
    counts: NDArray[np.int64]
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        counts = self.counts
        if counts.ndim != 2 or not len(counts) or counts.shape[1] < 3:
            raise InvalidInput(
                f"histogram counts have shape {counts.shape}; expected (features, bins + 2)"
            )
        low, high = as_ends(self.low, self.high, len(counts))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "names", as_names(self.names, len(low)))
        unfit = _unfit(low, high, self.bins)
        if unfit.any():
            feature = int(np.argmax(unfit))
            raise InvalidInput(
                f"range [{low[feature]}, {high[feature]}) of feature {feature}; expected "
                f"{self.bins} bins that floating-point numbers tell apart"
            )
        if counts.min() < 0:
            raise InvalidInput("a histogram has negative counts; count again")
        # In floating point: the integer sum could wrap around.
        if counts.sum(axis=1, dtype=np.float64).max() > MAX_SAMPLES:
            raise CountOverflow(f"a histogram of more than {MAX_SAMPLES} samples")
        if len(np.unique(counts.sum(axis=1))) != 1:
            raise InvalidInput(
                "the features of a histogram have different numbers of samples; count again"
            )
        counts.setflags(write=False)

    @staticmethod
    def empty(
        low: ArrayLike,
        high: ArrayLike,
        feature_dim: int = 0,
        *,
        bins: int = 256,
        names: Sequence[str] = (),
    ) -> Histogram:
        """The histogram of no samples: its bins are those of all that are added to it.

        >>> Histogram.empty(0, 16, feature_dim=1, bins=4).edges.tolist()
        [[0.0, 4.0, 8.0, 12.0, 16.0]]
        >>> Histogram.empty([0, 100], [1, 500], bins=2).edges.tolist()
        [[0.0, 0.5, 1.0], [100.0, 300.0, 500.0]]
        """
        low, high = as_ends(low, high, feature_dim)
        allowed = hasattr(bins, "__index__") and 1 <= bins <= MAX_BINS
        if not allowed or bins * len(low) > MAX_CELLS:
            raise InvalidInput(
                f"histogram of {bins} bins of {len(low)} features; expected an integer, "
                f"1..{MAX_BINS}, and at most {MAX_CELLS} bins in all"
            )
        # One zero for all cells: it takes no memory.
        counts = np.broadcast_to(np.int64(0), (len(low), int(bins) + 2))
        return Histogram(low, high, counts, names)

    def count(self, features: ArrayLike | Iterable[ArrayLike]) -> Histogram:
        """The histogram with these samples counted as well.

        ``features`` are an array or a frame, whose columns are matched by name, or an iterable of
        them.
        """
        single = hasattr(features, "ndim") or frame_names(features)
        batches: Iterable[Any] = [features] if single else features  # type: ignore[assignment]
        low = np.ascontiguousarray(self.low)
        counts = self.counts.copy()
        for batch in batches:
            arranged = arrange_frame(batch, self.names)
            # Bin 1 + floor((value - low) * rate); 0 below the range, bins + 1 from its end on.
            _add_to_bins(as_features(arranged, self.feature_dim), low, self.rate, self.bins, counts)
        return replace(self, counts=counts)

    @property
    def feature_dim(self) -> int:
        return len(self.counts)

    @property
    def bins(self) -> int:
        """Bins of each feature, without the two for what lies outside."""
        return self.counts.shape[1] - 2

    @property
    def rate(self) -> Vector:
        """Bins per unit, (feature_dim,)."""
        return self.bins / (self.high - self.low)

    @property
    def edges(self) -> Vector:
        """Bin borders, float64, (feature_dim, bins + 1)."""
        return np.linspace(self.low, self.high, self.bins + 1, axis=-1)

    @property
    def sample_count(self) -> int:
        return int(self.counts[0].sum())

    @property
    def cells(self) -> Iterator[NDArray[np.int64]]:
        """Its counts of samples: all of it."""
        yield self.counts

    @property
    def columns(self) -> int:
        return self.feature_dim

    @property
    def made_with(self) -> Mapping[str, str]:
        return {}

    @property
    def most_samples(self) -> int:
        return MAX_SAMPLES

    def samples_by_class(self) -> dict[ClassName, int]:
        return {}

    def holds(self) -> str:
        return f"how often values of each of {self.feature_dim:,} features occur"

    @property
    def _grid(self) -> str:
        """Its bins, as text for people."""
        ends = {*zip(self.low.tolist(), self.high.tolist(), strict=True)}
        span = "a range for each"
        if len(ends) == 1:
            span = f"{self.low[0]:g} to {self.high[0]:g}"
        return f"{self.bins:,} bins over {span}"

    def facts(self) -> dict[str, str]:
        outside = int(self.counts[:, 0].sum() + self.counts[:, -1].sum())
        share = outside / max(int(self.counts.sum()), 1)
        return {
            "features": f"{self.feature_dim:,}",
            "samples": f"{self.sample_count:,}",
            "grid": self._grid,
            "values outside": f"{share:.2%}" + (" (widen the grid)" if share > 0.01 else ""),
        }

    def exposure(self) -> Exposure:
        return expose_cells(self.sample_count, self.cells)

    def check_same(self, other: Histogram) -> None:
        """`EncoderMismatch` for a histogram of other features, or of other bins."""
        require_type("the value", other, Histogram)
        if self.names != other.names:
            here, there = (name_some(histogram.names) or "no names" for histogram in (self, other))
            raise EncoderMismatch(
                "histograms of features with different names cannot be added: count the same "
                f"columns everywhere (here {here}, there {there})"
            )
        if self.declaration() != other.declaration():
            raise EncoderMismatch(
                f"{self} and {other} cannot be added: count again with the same range and bins"
            )

    def __add__(self, other: Histogram) -> Histogram:
        if type(other) is not type(self):
            return NotImplemented
        self.check_same(other)
        return replace(self, counts=self.counts + other.counts)

    def __sub__(self, other: Histogram) -> Histogram:
        """Take a contribution back: the histogram that never saw it."""
        if type(other) is not type(self):
            return NotImplemented
        self.check_same(other)
        left = self.counts - other.counts
        if (left < 0).any():
            raise InvariantError("some counts would be negative; it was not part of the sum")
        return replace(self, counts=left)

    def add_all(self, others: Iterable[Histogram]) -> Histogram:
        """The sum with all others."""
        return reduce(add, others, self)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and self.declaration() == other.declaration()
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        features = f"{self.feature_dim:,} features"
        return f"<Histogram: {self.sample_count:,} samples, {self._grid}, {features}>"

    def declaration(self) -> dict[str, Any]:
        """Range and bins, the numbers exactly, as hexadecimal texts; and the features' names."""
        low = [end.hex() for end in self.low.tolist()]
        high = [end.hex() for end in self.high.tolist()]
        alike = len({*zip(low, high, strict=True)}) == 1
        grid = [low[0], high[0], self.bins] if alike else [low, high, self.bins]
        names = {"names": [*self.names]} if self.names else {}
        return {"grid": grid, "features": self.feature_dim, **names}

    @classmethod
    def declared(cls, content: Mapping[str, Any]) -> Histogram:
        """The zero of a `declaration`."""
        given = as_settings(_Declaration, content, where="histogram: ")
        low, high, bins = given.grid
        try:
            ends = _from_hexadecimal(low), _from_hexadecimal(high)
        except ValueError as error:
            raise InvalidInput(f"the range of a histogram is not valid: {error}") from error
        return Histogram.empty(*ends, given.features, bins=bins, names=given.names)

    def to_vector(self, zero: Histogram) -> NDArray[np.int64]:
        """The number of samples; then the counts of all features, without the last bin of each."""
        zero.check_same(self)
        return np.concatenate([[self.sample_count], self.counts[:, :-1].reshape(-1)])

    def from_vector(self, vector: NDArray[np.int64]) -> Histogram:
        """Of a zero: the histogram with this vector; the last bin follows from the samples."""
        free = vector[1:].reshape(self.feature_dim, -1)
        counts = np.column_stack([free, vector[0] - free.sum(axis=1)])
        return replace(self, counts=counts)

    def vector_bounds(self) -> NDArray[np.int64]:
        size = 1 + self.feature_dim * (self.bins + 1)
        require_free_memory(
            32 * size,
            purpose=f"histograms of {self.feature_dim:,} features",
            advice="use fewer bins",
        )
        bounds = np.ones(size, np.int64)
        bounds[0] = 0
        return bounds

    def calibration(self) -> Calibration:
        """The distribution that was counted, for an encoder."""
        if not self.sample_count:
            raise InvalidInput("the summed histogram is empty; thresholds need samples")
        mean, deviation = self._moments()
        contract = Contract(self.feature_dim, names=tuple(self.names))
        return Calibration(contract, self._quantiles, mean, replace_zeros(deviation))

    def _quantiles(self, count: int) -> Vector:
        """Thresholds, linear inside a bin; beyond the grid, the grid's border."""
        result = np.empty((count, self.feature_dim))
        targets = np.arange(1, count + 1) * self.sample_count
        for feature, (counts, edges) in enumerate(zip(self.counts, self.edges, strict=True)):
            cumulative = np.cumsum(counts)
            # The target stays a fraction of integers, so no rounding moves a bin.
            bins = np.searchsorted(cumulative * (count + 1), targets)
            inside = np.clip(bins - 1, 0, self.bins - 1)
            before = cumulative[bins] - counts[bins]
            share = (targets / (count + 1) - before) / np.maximum(counts[bins], 1)
            value = edges[inside] + share * (edges[inside + 1] - edges[inside])
            value = np.where(bins == 0, edges[0], value)
            result[:, feature] = np.where(bins == self.bins + 1, edges[-1], value)
        return np.maximum.accumulate(result, axis=0)

    def _moments(self) -> tuple[Vector, Vector]:
        """Moments of the bin centres; samples beyond the grid count at its border."""
        edges = self.edges
        inner = (edges[:, 1:] + edges[:, :-1]) / 2
        centres = np.concatenate([edges[:, :1], inner, edges[:, -1:]], axis=1)
        share = self.counts / self.sample_count
        mean = (share * centres).sum(axis=1)
        variance = (share * (centres - mean[:, None]) ** 2).sum(axis=1)
        return mean, np.sqrt(variance)

    def find_coarse(self) -> NDArray[np.int64]:
        """Features, ascending, all of whose samples fall into one or two bins.

        Such a feature has one or two values, or the range is too wide for it.
        """
        filled: NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return np.flatnonzero((filled > 0) & (filled <= 2))
