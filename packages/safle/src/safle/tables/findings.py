"""Values that an encoder does not expect: another unit or spelling, or nothing but gaps.

They are counted where samples are counted, so that every way to count warns alike. A warning counts
values that are not among a column's levels, far outside its range, or outside in larger number than
a draft leaves out. More than a tenth are refused, unless the caller allows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import InvalidInput, SafleWarning
from safle.tables.checks import MAX_NAMED
from safle.tables.contract import Contract

MAX_SHARE_OUTSIDE = 0.1
ALWAYS_ALLOWED = 8
"""Up to this many values outside are allowed, however short the table is."""
MIN_JUDGED = 20
"""Fewest values for a judgement: fewer may lie close together, or be missing, by chance."""
MAX_WORST = 5
"""Columns that one line about many of them names."""
NARROW_SHARE = 0.05
"""Values in a wrong unit span less of a range: a thousandth for kilograms instead of grams."""
ADVICE = (
    "are they in the units, and written as the levels, that the encoder was made for? Correct the "
    "table or the schema, or allow it with --allow-outside (allow_outside=True in Python)"
)


def count_left_out(least: int) -> int:
    """How many values a draft leaves out: a column's ``least - 1`` smallest and largest."""
    return 2 * (least - 1)


def allowed_outside(present: NDArray[np.int64] | int, least: int) -> NDArray[np.float64]:
    """How many of the values ``present`` may lie outside."""
    return np.maximum(
        MAX_SHARE_OUTSIDE * np.asarray(present), max(ALWAYS_ALLOWED, count_left_out(least))
    )


class Findings:
    """Counts, for each feature, values that the contract does not expect and gaps that are new.

    ``counts`` of values outside, and values ``present``, that are not missing: int64,
    (feature_dim,) each. ``never_missing``: features in which no client had a gap, where that is
    known.
    """

    def __init__(self, contract: Contract, never_missing: NDArray[np.bool_] | None = None) -> None:
        self._contract = contract
        self._never_missing = never_missing
        self.samples = 0
        self.counts = np.zeros(contract.feature_dim, np.int64)
        self.present = np.zeros(contract.feature_dim, np.int64)
        self._lowest = np.full(contract.feature_dim, np.inf)
        self._highest = np.full(contract.feature_dim, -np.inf)

    def add(self, features: NDArray[Any]) -> None:
        """Look at features that the contract has checked, (samples, feature_dim)."""
        if not self._contract.gaps and self._contract.ranges is None:
            return
        self.samples += len(features)
        gaps = np.isnan(features).sum(axis=0) if self._contract.gaps else 0
        self.present += len(features) - gaps
        if self._contract.ranges is None:
            return
        low, high = self._contract.ranges
        # A gap is neither the lowest nor the highest value, neither below nor above.
        lowest = np.fmin.reduce(features, axis=0, initial=np.inf)
        highest = np.fmax.reduce(features, axis=0, initial=-np.inf)
        self._lowest = np.fmin(self._lowest, lowest)
        self._highest = np.fmax(self._highest, highest)
        if (lowest < low).any() or (highest > high).any():
            self.counts += ((features < low) | (features > high)).sum(axis=0)

    @property
    def too_many(self) -> NDArray[np.int64]:
        """Features with too many values outside: another unit or spelling."""
        schema = self._contract.schema
        many = self.counts > allowed_outside(self.present, 1 if schema is None else schema.least)
        return np.flatnonzero(many | (self.counts == self.present) & (self.counts > 0))

    @property
    def _unexpected(self) -> NDArray[np.int64]:
        """Features with unknown levels, or with numbers that no draft would have left out.

        A draft leaves out a few numbers near its range; a few far from it are mistakes.
        """
        schema = self._contract.schema
        if schema is None:
            return np.flatnonzero(self.counts)
        low, high = schema.ranges
        is_category = np.array([column.is_category for column in schema.columns])
        many = self.counts > np.where(is_category, 0, count_left_out(schema.least))
        far = (self._lowest < 2 * low - high) | (self._highest > 2 * high - low)
        return np.flatnonzero(many | (far & (self.counts > 0)))

    def texts(self) -> list[str]:
        """Sentences about values that are not expected; many features share one."""
        few = np.setdiff1d(self._unexpected, self.too_many)
        is_number = np.array([not self._levels(at) for at in few], bool)
        return [
            *self._texts_unknown_levels(few[~is_number]),
            *self._texts_outside(few[is_number]),
            *self._texts_outside(self.too_many),
            *self._texts_narrow(),
            *self._texts_gaps(),
        ]

    def _describe(
        self, places: Sequence[int], badness: NDArray[Any], text: Callable[[int], str]
    ) -> list[str]:
        """The ``text`` of each of these features; of the worst in one line if they are many."""
        if len(places) <= MAX_NAMED:
            return [text(at) for at in places]
        worst = sorted(places, key=badness.item, reverse=True)[:MAX_WORST]
        count = f"{len(places):,} of {self._contract.feature_dim:,} columns"
        listed = "; ".join(text(at) for at in worst)
        return [f"{count} are not as the encoder expects; the worst: {listed}"]

    @property
    def _shares_outside(self) -> NDArray[np.float64]:
        return self.counts / np.maximum(self.present, 1)

    def _text_outside(self, at: int) -> str:
        many = f"{self.counts[at]:,} of {self.present[at]:,} values of {self._name(at)} are"
        if levels := self._levels(at):
            return f"{many} not among its {len(levels)} levels"
        return f"{many} outside {self._expected(at)}"

    def _texts_outside(self, places: NDArray[np.int64]) -> list[str]:
        return self._describe(places.tolist(), self._shares_outside, self._text_outside)

    def _texts_unknown_levels(self, places: NDArray[np.int64]) -> list[str]:
        """Sentences about the worst of these categories; the others are counted."""
        worst = sorted(places.tolist(), key=self._shares_outside.item, reverse=True)
        texts = [self._text_outside(at) for at in worst[:MAX_NAMED]]
        if more := len(worst) - len(texts):
            texts.append(f"{more:,} more categories have values that are not among their levels")
        return texts

    def _texts_narrow(self) -> list[str]:
        """Sentences about numbers whose values lie so close together that the unit seems wrong."""
        if self._contract.ranges is None:
            return []
        low, high = self._contract.ranges
        # A constant is not a sign of another unit, and columns with values outside were named.
        varying = self._highest > self._lowest
        varying[self.too_many] = False
        varying[self._unexpected] = False
        spans = self._highest - self._lowest
        near = spans < NARROW_SHARE * (high - low)
        places = np.flatnonzero(varying & near & (self.present >= MIN_JUDGED)).tolist()

        def text(at: int) -> str:
            return (
                f"all {self.present[at]:,} values of {self._name(at)} together span less than "
                f"{NARROW_SHARE:.0%} of {self._expected(at)}: are they in its unit?"
            )

        numbers = [at for at in places if not self._levels(at)]
        return self._describe(numbers, -spans / np.where(high > low, high - low, 1.0), text)

    def _texts_gaps(self) -> list[str]:
        """Sentences about gaps in features that were never missing at any client."""
        if self._never_missing is None:
            return []
        gaps = np.where(self._never_missing, self.samples - self.present, 0)

        def text(at: int) -> str:
            rest = "the other columns" if self._levels(at) else "the middle of its range"
            name = self._name(at)
            return (
                f"{name} is missing in {gaps[at]:,} of {self.samples:,} samples but was never "
                f"missing in training; these predictions rest on {rest}"
            )

        return self._describe(np.flatnonzero(gaps).tolist(), gaps, text)

    def _texts_missing(self) -> list[str]:
        """Sentences about columns of gaps alone; an optional column may be missing."""
        schema = self._contract.schema
        empty = np.flatnonzero(self.present == 0).tolist()
        needed = [at for at in empty if schema is None or not schema.columns[at].optional]
        if self.samples < MIN_JUDGED:
            return []
        return self._describe(
            needed, self.present, lambda at: f"all values of {self._name(at)} are missing"
        )

    def _levels(self, at: int) -> tuple[str, ...]:
        """The levels of a category; none for a number."""
        return () if self._contract.schema is None else self._contract.schema.columns[at].levels

    def _name(self, at: int) -> str:
        names = self._contract.names
        return repr(names[at]) if names else f"feature {at}"

    def _expected(self, at: int) -> str:
        """The range of a number."""
        if self._contract.schema is not None:
            return self._contract.schema.columns[at].text
        assert self._contract.ranges is not None, "nothing else counts"
        low, high = (end[at] for end in self._contract.ranges)
        return f"{low:g} to {high:g}"

    def judge(self, *, allowed: bool) -> None:
        """Warn of what is not expected where samples are counted.

        `InvalidInput` where too many values lie outside, or all are missing, unless that is
        ``allowed``.
        """
        if len(self.too_many) and not allowed:
            refused = self._texts_outside(self.too_many)
            raise InvalidInput(f"{'; '.join(refused)}: {ADVICE}")
        if self.samples and not self.present.any() and not allowed:
            raise InvalidInput(
                f"all values of all {len(self.present):,} columns are missing: is it the right "
                "file? If it is, leave it out, or allow it with --allow-outside "
                "(allow_outside=True)"
            )
        for text in [*self._texts_missing(), *self.texts()]:
            warnings.warn(text, SafleWarning, stacklevel=4)

    def warn(self) -> None:
        """Warn of what is not expected, at any share."""
        for text in self.texts():
            warnings.warn(text, SafleWarning, stacklevel=4)
