"""Values outside the range, or the levels, that an encoder expects: another unit or spelling.

They are counted where samples are counted, so that every way to count says the same. A few are
named in a warning; more than a tenth of a column's values are refused, unless the caller allows it.
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
"""So many values are no sign of another unit, however short the table is."""
ADVICE = (
    "are they in the units, and written as the levels, that the encoder was made for? Correct the "
    "table or the schema, or allow it with --allow-outside (allow_outside=True in Python)"
)


def as_ranges(low: ArrayLike, high: ArrayLike, feature_dim: int) -> Ranges:
    """Both ends as float64, (feature_dim,); `SettingsError` for what is no range."""
    ends = np.array(low, np.float64), np.array(high, np.float64)
    if {end.shape for end in ends} != {(feature_dim,)}:
        raise SettingsError(
            f"ranges of shapes {ends[0].shape} and {ends[1].shape}; expected ({feature_dim},)"
        )
    if not np.isfinite(ends).all() or (ends[0] > ends[1]).any():
        raise SettingsError("ranges must be finite, with low not above high")
    return ends


def most_outside(present: NDArray[np.int64] | int, least: int) -> NDArray[np.float64]:
    """Values outside that are let pass, of those ``present``.

    The draft of a schema leaves out the ``least - 1`` smallest and largest values of a column.
    """
    return np.maximum(MOST_SHARE * np.asarray(present), max(SPARED, 2 * (least - 1)))


class Outside:
    """How many values of each feature lie outside what an encoder expects.

    ``counts`` of them, and values ``present``, that are not missing: int64, (feature_dim,) each.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.counts = np.zeros(encoder.feature_dim, np.int64)
        self.present = np.zeros(encoder.feature_dim, np.int64)

    def add(self, features: NDArray[Any]) -> None:
        """Count features that the encoder has checked, (samples, feature_dim)."""
        if self._encoder.ranges is None:
            return
        low, high = self._encoder.ranges
        # A gap is neither below nor above.
        self.counts += ((features < low) | (features > high)).sum(axis=0)
        self.present += (~np.isnan(features)).sum(axis=0)

    def texts(self, places: NDArray[np.int64] | None = None) -> list[str]:
        """One sentence for each feature with values outside; of ``places`` only, if given."""
        chosen = np.flatnonzero(self.counts) if places is None else places
        return [self._text(int(at)) for at in chosen]

    def _text(self, at: int) -> str:
        many = f"{self.counts[at]:,} of {self.present[at]:,} values of "
        if self._encoder.schema is None:
            assert self._encoder.ranges is not None, "nothing else counts"
            low, high = (end[at] for end in self._encoder.ranges)
            return f"{many}{self._encoder.feature_names[at]!r} are outside {low:g} to {high:g}"
        column = self._encoder.schema.columns[at]
        if column.is_category:
            return f"{many}{column.name!r} are none of its {len(column.levels)} levels"
        return f"{many}{column.name!r} are outside {column.text}"

    @property
    def too_many(self) -> NDArray[np.int64]:
        """Features of which so many values lie outside that they must be something else."""
        schema = self._encoder.schema
        many = self.counts > most_outside(self.present, 1 if schema is None else schema.least)
        return np.flatnonzero(many | (self.counts == self.present) & (self.counts > 0))

    def judge(self, *, allowed: bool) -> None:
        """Warn of what lies outside; `InvalidInput` for too many, unless that is ``allowed``."""
        if len(self.too_many) and not allowed:
            raise InvalidInput(f"{'; '.join(self.texts(self.too_many))}: {ADVICE}")
        self.warn()

    def warn(self) -> None:
        """Warn of what lies outside, whatever the share."""
        for text in self.texts():
            warnings.warn(text, SafleWarning, stacklevel=4)
