"""The encoder of mixed tables: a symbol for every level of a category, and for every gap.

Expert j reads column j: symbol 0 is a gap, 1 a number; or 1 to L the levels of a category, L + 1
any other. The dense columns are the linear columns of the numbers (0 in a gap), a constant, and
units. The inputs of units are the numbers, then the levels; units have thresholds, and few terms:
most effects in tables involve two or three columns. A unit reads a level as a fixed-point column,
``floor(sqrt(4^fraction_bits * m))`` in samples of this level and ``-floor(sqrt(floor(
4^fraction_bits / m)))`` in others, ``m = max(L, 2) - 1``, as if all levels were equally frequent.
The scale of a unit is ``2^bits``, four times that of `safle.encoders.random_features`: its values
are a quarter as large, so the one ridge of all columns weighs sixteen times as much on it.
Of U units over d inputs, unit j has the threshold ``floor((B - 1020) * floor(sqrt(48171 * terms *
4^fraction_bits)) / 2^16)``, about normal with 0.7 of the sum's deviation: B is the sum of the eight
bytes of the SplitMix64 output number ``U d + j + 1``.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle._native.cores import blas_for
from safle.basics.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EXPERTS, MAX_TABLE_SIZE, Layout, tables_of
from safle.encoders.linear import (
    FRACTION_BITS,
    NORM_CLIP,
    LinearEncoder,
    Transform,
    invert_transform,
    transformed_moments,
)
from safle.encoders.operations import NumpyOperations, Operations, T
from safle.encoders.random_features import BITS, MAX_TERMS, SEED, UNITS_HELP, RandomColumns
from safle.encoders.registry import Settings, annotate
from safle.errors import SettingsError
from safle.tables.contract import Contract
from safle.tables.schema import Schema

UNITS_PER_INPUT = 64
MAX_UNITS = 256
TERMS = 3
SCALE_BITS = 2
"""Four times the scale; docs/trials.md compares it with others, and with a ridge of its own."""
_UNITS = annotate(
    UNITS_HELP, minimum=1, maximum=MAX_EXPERTS, chosen="64 per number or level, at most 256"
)
_TERMS = annotate(
    "How many numbers or levels each random feature adds.",
    minimum=1,
    maximum=MAX_TERMS,
    chosen="3, or as many as there are",
)


class TableSettings(Settings, frozen=True):
    """Settings of a `TableEncoder`: those of random features, but sums are never counted by class.

    We have not measured what counting by class gains beside symbols.
    """

    units: Annotated[int, _UNITS] | None = None
    bits: Annotated[int, BITS] = 4
    terms: Annotated[int, _TERMS] | None = None
    seed: Annotated[int, SEED] = 0
    fraction_bits: Annotated[int, FRACTION_BITS] = 6
    transform: Transform | None = "none"
    norm_clip: Annotated[int, NORM_CLIP] = 0

    def choose(self, calibration: Calibration, class_count: int) -> Self:  # noqa: ARG002
        inputs = calibration.feature_dim
        schema = calibration.contract.schema
        if schema is not None:
            # A category has an input for each of its levels.
            inputs = sum(len(column.levels) or 1 for column in schema.columns)
        return msgspec.structs.replace(
            self,
            units=self.units or min(UNITS_PER_INPUT * inputs, MAX_UNITS),
            terms=self.terms or min(TERMS, inputs),
        )


class TableEncoder(Encoder):
    """Columns of a mixed table -> one symbol each; numbers also as in `RandomFeatureEncoder`.

    Parameters
    ----------
    mean, deviation : float64, (numbers,)
        of the transformed numbers
    schema : what the columns are; without one, all are numbers
    settings : see `TableSettings`

    Examples
    --------
    >>> from safle import Column, Schema, make_encoder, of_schema
    >>> schema = Schema((Column("age", 0, 80), Column("sex", levels=("f", "m"))))
    >>> encoder = make_encoder(of_schema(schema), "table")
    >>> encoder.encode([[55, 1], [float("nan"), 2], [20, float("nan")]]).symbols.tolist()
    [[1, 2], [0, 3], [1, 0]]
    """

    kind = "table"
    summary = "for tables: levels of categories, gaps, and numbers as in random-features"
    gaps = True
    settings_type: ClassVar[type[TableSettings]] = TableSettings
    settings: TableSettings

    def __init__(
        self,
        mean: NDArray[np.float64],
        deviation: NDArray[np.float64],
        *,
        schema: Schema | None = None,
        **settings: Any,
    ) -> None:
        contract = Contract(np.size(mean), gaps=True)
        super().__init__(contract if schema is None else Contract.of_schema(schema), **settings)
        names = ("fraction_bits", "transform", "norm_clip")
        linear = {name: getattr(self.settings, name) for name in names}
        self.linear = LinearEncoder(mean, deviation, **linear)
        self.numbers = np.flatnonzero(self._level_counts == 0)
        if self.linear.feature_dim != len(self.numbers):
            raise SettingsError(
                f"mean has shape {self.linear.mean.shape}; expected one number for each of "
                f"{len(self.numbers)} columns of numbers"
            )
        inputs = len(self.numbers) + len(self._level_columns)
        self.random = RandomColumns(
            inputs, self.settings, has_thresholds=True, scale_bits=SCALE_BITS
        )

    @classmethod
    def measure(cls, calibration: Calibration, settings: TableSettings) -> dict[str, Any]:
        mean, deviation = transformed_moments(calibration, str(settings.transform))
        return {"mean": mean, "deviation": deviation, "schema": calibration.contract.schema}

    @cached_property
    def _level_counts(self) -> NDArray[np.int64]:
        """How many levels each category has, 0 for a number; (feature_dim,)."""
        schema = self.contract.schema
        columns = () if schema is None else schema.columns
        counts = [len(column.levels) for column in columns] or [0] * self.feature_dim
        return np.array(counts, np.int64)

    @cached_property
    def layout(self) -> Layout:
        # A category has symbols for gaps and for other levels too; a number has one for gaps.
        sizes = np.where(self._level_counts, self._level_counts + 2, 2)
        return Layout([*tables_of(sizes.tolist()), *self.linear.layout.blocks, self.random.block])

    @cached_property
    def _level_columns(self) -> NDArray[np.int64]:
        """The column of each level, (levels,)."""
        return np.repeat(np.arange(self.feature_dim), self._level_counts)

    def _fix_levels(self, ops: Operations[T], features: T) -> T:
        """Levels as standardised columns in fixed point, (samples, levels).

        If L levels are equally frequent, the column of one is sqrt(L - 1) deviations above its
        mean in samples of this level, and 1 / sqrt(L - 1) below it in others.
        """
        others = np.maximum(self._level_counts[self._level_columns], 2) - 1
        square = self.linear.scale**2
        here = np.array([math.isqrt(square * int(n)) for n in others], np.float64)
        elsewhere = np.array([-math.isqrt(square // int(n)) for n in others], np.float64)
        places = np.concatenate([np.arange(n) for n in self._level_counts if n])
        values = ops.gather(ops.fill(features, -np.inf), self._level_columns)
        is_level = ops.inside(values, places - 0.5, places + 0.5)
        return ops.add(ops.multiply(is_level, here - elsewhere), elsewhere)

    @property
    def gap_codes(self) -> NDArray[np.int64]:
        return np.asarray(self.layout.bases[:-1])

    def arrays(self) -> Arrays:
        return self.linear.arrays()

    @cached_property
    def _thresholds(self) -> NDArray[np.float64]:
        """Thresholds of all columns, (most symbols - 1, feature_dim).

        Columns of fewer thresholds are padded with infinity, which no value exceeds.
        """
        steps = np.arange(self.layout.table_sizes.max() - 1)[:, None] - 0.5
        # Level i is feature value i: its thresholds lie half a step below and above.
        padded = np.where(steps < self._level_counts + 0.5, steps, np.inf)
        # Every number exceeds minus infinity; a gap, which is there, does not.
        padded[0, self.numbers] = -np.inf
        return padded

    def express(self, ops: Operations[T], features: T) -> tuple[T, T]:
        symbols = ops.levels(ops.fill(features, -np.inf), self._thresholds)
        fixed, *level_inputs = self._fix(ops, features)
        units = self.random.express(ops, ops.join([fixed, *level_inputs]))
        return symbols, ops.join([ops.append(fixed, self.linear.scale), units])

    def _fix(self, ops: Operations[T], features: T) -> list[T]:
        """The inputs of units: the linear columns of the numbers, then the levels, if any."""
        # A gap becomes the mean, whose linear code is 0.
        means = invert_transform(self.linear.mean, str(self.settings.transform))
        numbers = ops.fill(ops.gather(features, self.numbers), means)
        fixed = self.linear.fixed_point(ops, numbers)
        levels = [self._fix_levels(ops, features)] if len(self._level_columns) else []
        return [fixed, *levels]

    @property
    def level_count(self) -> int:
        # Units of one sum of columns are a thermometer of it: differences of them are its levels.
        _, places = self.random.knots
        return min(len(places) + 1, MAX_TABLE_SIZE) if len(places) else 0

    def levels(self, features: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
        if not self.level_count:
            return super().levels(features)
        directions, places = self.random.knots
        ops = NumpyOperations()
        with np.errstate(over="ignore"):
            inputs = ops.join(self._fix(ops, features.astype(np.float64)))
        with blas_for(2 * inputs.size * directions.shape[1]):
            projected = inputs @ directions
        found = ops.levels(projected, places)
        return np.minimum(found, self.level_count - 1).astype(np.uint16)
