"""Mixed tables: a symbol for every level of a category, for every bucket and gap of a number.

Expert j reads column j: symbol 0 says that the value is missing, the next ones are the levels
of a category, the last one any other level; or the buckets of a number. Beside them, the numbers
are linear columns, 0 where one is missing, a constant, and random features of them. So nothing
is filled in, no order is made up for categories, and what one hospital alone has is one symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from safle.basics.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration
from safle.encoders.codes import Layout
from safle.encoders.linear import BY_CLASS, restored, transformed_moments
from safle.encoders.operations import Expressed, Operations, T
from safle.encoders.random_features import RandomFeatureEncoder, RandomFeatureSettings
from safle.encoders.schema import Schema
from safle.encoders.settings import setting
from safle.errors import SettingsError

LARGEST = float(np.finfo(np.float64).max)
"""No threshold is crossed at the one, every one at the other: ``-LARGEST < x <= LARGEST``."""
WORTH_BITS = 3
"""A dense column's real value is that of `RandomFeatureEncoder`, times 2**3.

So one ridge for all columns leaves the dense ones 64 times freer than the symbols, of which many
are seen a few times only: see docs/heads.md.
"""


@dataclass(frozen=True)
class TableSettings(RandomFeatureSettings):
    """Of a `TableEncoder`."""

    buckets: int = setting(4, "Buckets per number.", least=1, most=1024)
    # Nobody tried what it is worth beside symbols.
    by_class: bool | None = setting(False, BY_CLASS)


class TableEncoder(Encoder):
    """Columns of a mixed table -> one symbol each; numbers also as in `RandomFeatureEncoder`.

    Parameters
    ----------
    thresholds : float64, (buckets - 1, numbers), non-decreasing along axis 0
    mean, deviation : float64, (numbers,)
        of the transformed numbers
    schema : what the columns are; numbers all of them if there is none
    settings : see `TableSettings`

    Examples
    --------
    >>> from safle import make_encoder
    >>> from safle.encoders.schema import Column, Schema
    >>> schema = Schema((Column("age", 0, 80), Column("sex", levels=("f", "m"))))
    >>> encoder = make_encoder(schema, "table", buckets=2)
    >>> encoder.encode([[55, 1], [float("nan"), 2], [20, float("nan")]]).symbols.tolist()
    [[2, 2], [0, 3], [1, 0]]
    """

    kind = "table"
    summary = "for tables: levels of categories, gaps, and numbers as in random-features"
    gaps = True
    worth = 1 << WORTH_BITS
    settings_type: ClassVar[type[TableSettings]] = TableSettings
    settings: TableSettings

    def __init__(
        self,
        thresholds: NDArray[np.float64],
        mean: NDArray[np.float64],
        deviation: NDArray[np.float64],
        *,
        schema: Schema | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.borders = np.array(thresholds, np.float64)
        self.mean, self.deviation = np.array(mean, np.float64), np.array(deviation, np.float64)
        self.schema = schema
        self.ranges = None if schema is None else schema.ranges
        self.feature_dim = self.mean.size if schema is None else schema.feature_dim
        wanted = (self.settings.buckets - 1, len(self.numbers))
        if self.borders.shape != wanted or {self.mean.shape, self.deviation.shape} != {wanted[1:]}:
            raise SettingsError(
                f"thresholds have shape {self.borders.shape}, mean {self.mean.shape}, deviation "
                f"{self.deviation.shape}; expected {wanted} and one number per column of numbers"
            )
        if not self.feature_dim:
            raise SettingsError("no columns; expected at least one")
        if not np.isfinite(self.borders).all() or (np.diff(self.borders, axis=0) < 0).any():
            raise SettingsError("thresholds must be finite and must not decrease")
        own = {n: v for n, v in self.settings.to_dict().items() if n != "buckets"}
        moments = self.mean, self.deviation
        self.dense = RandomFeatureEncoder(*moments, **own) if len(self.numbers) else None

    @classmethod
    def _calibrated(cls, calibration: Calibration, **settings: Any) -> Self:
        schema: Schema | None = getattr(calibration, "schema", None)
        numbers = calibration if schema is None else schema.numbers
        chosen = cls.settings_type.of(settings)
        if numbers is None:
            none = np.empty(0)
            chosen = replace(chosen, units=chosen.units or 1, terms=1, transform="none")
            borders = np.empty((chosen.buckets - 1, 0))
            return cls(borders, none, none, schema=schema, **chosen.to_dict())
        chosen = chosen.choose(numbers)
        moments = transformed_moments(numbers, str(chosen.transform))
        borders = numbers.thresholds(chosen.buckets - 1)
        return cls(borders, *moments, schema=schema, **chosen.to_dict())

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """Places of the columns that are numbers."""
        if self.schema is None:
            return np.arange(self.feature_dim)
        return np.flatnonzero([not column.is_category for column in self.schema.columns])

    @cached_property
    def _levels(self) -> NDArray[np.int64]:
        """Levels of each category, 0 of a number; (feature_dim,)."""
        columns = () if self.schema is None else self.schema.columns
        counts = [len(column.levels) for column in columns] or [0] * self.feature_dim
        return np.array(counts, np.int64)

    @cached_property
    def layout(self) -> Layout:
        # Missing and other beside the levels, missing beside the buckets.
        sizes = np.where(self._levels, self._levels + 2, self.settings.buckets + 1)
        scale = 1 << self.settings.fraction_bits
        dense = Layout((), (scale,), ((scale, scale),)) if self.dense is None else self.dense.layout
        scales = [
            each if low == high else max(1, each >> WORTH_BITS)
            for each, (low, high) in zip(dense.dense_scales, dense.dense_limits, strict=True)
        ]
        limits, norms = dense.dense_limits, dense.dense_norms
        return Layout(tuple(sizes.tolist()), tuple(scales), limits, norms, dense.by_class)

    def arrays(self) -> Arrays:
        return {"thresholds": self.borders, "mean": self.mean, "deviation": self.deviation}

    def header(self) -> dict[str, Any]:
        schema = {} if self.schema is None else {"schema": self.schema.to_json()}
        return super().header() | schema

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        declared = {**settings}
        content = declared.pop("schema", None)
        schema = None if content is None else Schema.from_json(content)
        return cls(**arrays, schema=schema, **declared)

    def facts(self) -> dict[str, str]:
        shown = {n.replace("_", " "): f"{v}" for n, v in self.settings.to_dict().items()}
        columns = () if self.schema is None else self.schema.columns
        for column in columns:
            levels = ", ".join(column.levels)
            shown[column.name] = levels or f"{column.low:g} to {column.high:g} {column.unit}"
        return shown

    @cached_property
    def _thresholds(self) -> NDArray[np.float64]:
        """Of all columns, padded with what nothing exceeds; (most symbols - 1, feature_dim)."""
        sizes = np.array(self.layout.table_sizes)
        padded = np.full((max(sizes) - 1, self.feature_dim), LARGEST)
        # Level 0 is feature value 0: half a step around each.
        steps = np.arange(len(padded))[:, None] - 0.5
        padded = np.where(steps < self._levels + 0.5, steps, padded)
        # Categories of few levels, alone, have fewer rows than numbers would need.
        if len(self.numbers):
            padded[0, self.numbers] = -LARGEST
            padded[1 : 1 + len(self.borders), self.numbers] = self.borders
            padded[1 + len(self.borders) :, self.numbers] = LARGEST
        return padded

    def express(self, ops: Operations[T], features: T) -> Expressed[T]:
        symbols = ops.levels(ops.fill(features, -np.inf), self._thresholds)
        numbers = ops.gather(features, self.numbers)
        if self.dense is None:
            return Expressed(symbols, ops.append(numbers, 1 << self.settings.fraction_bits))
        # What is missing stands at the mean: 0, as a linear column.
        filled = ops.fill(numbers, restored(self.mean, str(self.settings.transform)))
        return Expressed(symbols, self.dense.express(ops, filled).dense)

    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        # Levels are all as likely.
        drawn = generator.integers(0, np.maximum(self._levels, 1), (samples, self.feature_dim))
        made = drawn.astype(np.float64)
        if self.dense is not None:
            made[:, self.numbers] = self.dense.plausible_features(samples, generator)
        return made
