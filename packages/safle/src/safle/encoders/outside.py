"""Values that an encoder does not expect: another unit or spelling, or nothing but gaps.

They are counted where samples are counted, so that every way to count says the same. A few values
outside a range, or the levels, are named in a warning; more than a tenth of a column's values are
refused, unless the caller allows it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.errors import InvalidInput, SafleWarning, SettingsError

if TYPE_CHECKING:
    from safle.encoders.base import Encoder

Ranges = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lowest and highest values, (feature_dim,) each."""
MOST_SHARE = 0.1
SPARED = 8
"""Up to this many values outside are let pass, however short the table is."""
MOST_NAMED = 3
"""Most columns that are named one by one; for more, one line says how many there are."""
LEAST_JUDGED = 20
"""Fewest values for a judgement: fewer may lie close together, or be missing, by chance."""
NARROW_SHARE = 0.02
"""Share of a range that the values of a wrong unit span: grams for kilograms make a thousandth."""
ADVICE = (
    "are they in the units, and written as the levels, that the encoder was made for? Correct the "
    "table or the schema, or allow it with --allow-outside (allow_outside=True in Python)"
)


def as_ranges(low: ArrayLike, high: ArrayLike, feature_dim: int) -> Ranges:
    """Both ends as float64, (feature_dim,); `SettingsError` unless they are finite and ordered."""
    ends = np.array(low, np.float64), np.array(high, np.float64)
    if {end.shape for end in ends} != {(feature_dim,)}:
        raise SettingsError(
            f"ranges of shapes {ends[0].shape} and {ends[1].shape}; expected ({feature_dim},)"
        )
    if not np.isfinite(ends).all() or (ends[0] > ends[1]).any():
        raise SettingsError("ranges must be finite, with low not above high")
    return ends


def most_outside(present: NDArray[np.int64] | int, least: int) -> NDArray[np.float64]:
    """How many of the values ``present`` may lie outside.

    The draft of a schema leaves out the ``least - 1`` smallest and largest values of a column.
    """
    return np.maximum(MOST_SHARE * np.asarray(present), max(SPARED, 2 * (least - 1)))


class Outside:
    """Counts, for each feature, values that the encoder does not expect and gaps that are new.

    ``counts`` of values outside, and values ``present``, that are not missing: int64,
    (feature_dim,) each. ``never_missing``: features in which no client had a gap, where that is
    known.
    """

    def __init__(self, encoder: Encoder, never_missing: NDArray[np.bool_] | None = None) -> None:
        self._encoder = encoder
        self._never_missing = never_missing
        self.samples = 0
        self.counts = np.zeros(encoder.feature_dim, np.int64)
        self.present = np.zeros(encoder.feature_dim, np.int64)
        self._least = np.full(encoder.feature_dim, np.inf)
        self._largest = np.full(encoder.feature_dim, -np.inf)

    def add(self, features: NDArray[Any]) -> None:
        """Look at features that the encoder has checked, (samples, feature_dim)."""
        if not self._encoder.gaps and self._encoder.ranges is None:
            return
        self.samples += len(features)
        gaps = np.isnan(features).sum(axis=0) if self._encoder.gaps else 0
        self.present += len(features) - gaps
        if self._encoder.ranges is None:
            return
        low, high = self._encoder.ranges
        # A gap is neither the least nor the largest, neither below nor above.
        least = np.fmin.reduce(features, axis=0, initial=np.inf)
        largest = np.fmax.reduce(features, axis=0, initial=-np.inf)
        self._least = np.fmin(self._least, least)
        self._largest = np.fmax(self._largest, largest)
        if (least < low).any() or (largest > high).any():
            self.counts += ((features < low) | (features > high)).sum(axis=0)

    @property
    def too_many(self) -> NDArray[np.int64]:
        """Features with too many values outside: another unit or spelling."""
        schema = self._encoder.schema
        many = self.counts > most_outside(self.present, 1 if schema is None else schema.least)
        return np.flatnonzero(many | (self.counts == self.present) & (self.counts > 0))

    def texts(self) -> list[str]:
        """Sentences about values that are not expected; many features share one."""
        few = np.setdiff1d(np.flatnonzero(self.counts), self.too_many)
        many = self._texts_outside(self.too_many, "many")
        return [
            *self._texts_outside(few, "a few"),
            *many,
            *self._texts_narrow(),
            *self._texts_gaps(),
        ]

    def _texts_outside(self, places: NDArray[np.int64], how_many: str) -> list[str]:
        if len(places) <= MOST_NAMED:
            return [self._text_outside(int(at)) for at in places]
        most = places[np.argmax(self.counts[places] / self.present[places])]
        text = (
            f"{len(places):,} of {self._encoder.feature_dim:,} columns have {how_many} values "
            f"outside what the encoder expects; most: {self._name(most)}, "
            f"{self.counts[most]:,} of {self.present[most]:,}"
        )
        return [text]

    def _text_outside(self, at: int) -> str:
        many = f"{self.counts[at]:,} of {self.present[at]:,} values of {self._name(at)} are "
        if self._encoder.schema is not None and self._encoder.schema.columns[at].is_category:
            return f"{many}none of its {len(self._encoder.schema.columns[at].levels)} levels"
        return f"{many}outside {self._expected(at)}"

    def _texts_narrow(self) -> list[str]:
        """Sentences about numbers whose values lie so close together that the unit seems wrong."""
        if self._encoder.ranges is None:
            return []
        low, high = self._encoder.ranges
        # A constant is no sign of another unit, and columns with values outside were named.
        varying = (self._largest > self._least) & (self.counts == 0) & ~self._categories
        near = self._largest - self._least < NARROW_SHARE * (high - low)
        places = np.flatnonzero(varying & near & (self.present >= LEAST_JUDGED))
        if len(places) > MOST_NAMED:
            text = (
                f"the values of {len(places):,} of {len(low):,} columns span less than "
                f"{NARROW_SHARE:.0%} of their ranges, such as {self._name(places[0])}: are they in "
                "the units of the encoder?"
            )
            return [text]
        return [
            f"all {self.present[at]:,} values of {self._name(at)} together span less than "
            f"{NARROW_SHARE:.0%} of {self._expected(at)}: are they in its unit?"
            for at in places
        ]

    def _texts_gaps(self) -> list[str]:
        """Sentences about gaps in features that no client had a gap in."""
        if self._never_missing is None:
            return []
        gaps = np.where(self._never_missing, self.samples - self.present, 0)
        places = np.flatnonzero(gaps)
        if len(places) > MOST_NAMED:
            most = int(np.argmax(gaps))
            text = (
                f"no client had a gap in {len(places):,} columns that have some here; most: "
                f"{self._name(most)}, {gaps[most]:,} of {self.samples:,}"
            )
            return [text]
        others = ("the middle of its range", "the other columns")
        return [
            f"no client had a gap in {self._name(at)}; {gaps[at]:,} predictions rest on "
            f"{others[int(self._categories[at])]}"
            for at in places
        ]

    @property
    def _categories(self) -> NDArray[np.bool_]:
        """Whether a feature is a category, (feature_dim,)."""
        schema = self._encoder.schema
        if schema is None:
            return np.zeros(self._encoder.feature_dim, bool)
        return np.array([column.is_category for column in schema.columns])

    def _name(self, at: int | np.integer) -> str:
        names = self._encoder.feature_names
        return repr(names[at]) if names else f"feature {at}"

    def _expected(self, at: int | np.integer) -> str:
        """The range of a number."""
        assert self._encoder.ranges is not None, "nothing else counts"
        low, high = (end[at] for end in self._encoder.ranges)
        schema = self._encoder.schema
        unit = "" if schema is None else schema.columns[at].unit
        return f"{low:g} to {high:g} {unit}".rstrip()

    def judge(self, *, allowed: bool) -> None:
        """Warn of what is not expected where samples are counted.

        `InvalidInput` where too many values lie outside, or all are missing, unless that is
        ``allowed``.
        """
        if len(self.too_many) and not allowed:
            refused = self._texts_outside(self.too_many, "many")
            raise InvalidInput(f"{'; '.join(refused)}: {ADVICE}")
        empty = np.flatnonzero((self.present == 0) & (self.samples > 0))
        if len(empty) == self._encoder.feature_dim and not allowed:
            raise InvalidInput(
                f"all values of all {len(empty):,} columns are missing: is it the right file? If "
                "it is, leave it out, or allow it with --allow-outside (allow_outside=True)"
            )
        schema = self._encoder.schema
        # An optional column may be missing.
        named = [at for at in empty if schema is None or not schema.columns[at].optional]
        if named and self.samples >= LEAST_JUDGED:
            names = ", ".join(map(self._name, named[:MOST_NAMED]))
            more = f" and of {len(named) - MOST_NAMED} more columns" * (len(named) > MOST_NAMED)
            warnings.warn(f"all values of {names}{more} are missing", SafleWarning, stacklevel=4)
        self.warn()

    def warn(self) -> None:
        """Warn of what is not expected, whatever the share."""
        for text in self.texts():
            warnings.warn(text, SafleWarning, stacklevel=4)
