"""Random features as integers of a few bits: non-linear columns whose sums are exact.

Beside the d linear columns and their constant, unit j takes the SplitMix64 outputs number ``j d +
f + 1`` of the seed as keys of the features f = 0 to d - 1. It adds the linear codes of the
``terms`` features with the smallest keys (ties by f), negated where the key is odd, takes off a
threshold b_j (of tables; 0 here) and keeps ``bits`` bits of what is positive:

    ``code_j = min(2^bits - 1, floor(max(0, sum_j - b_j) / 2^shift + 1/2))``

with ``shift = fraction_bits + floor(b / 2) + 2 - bits``, b the bits of the number ``terms``. The
scale of a unit is ``2^(bits - 2)``, of tables ``2^bits``. All of it is integer arithmetic: every
machine computes the same codes. The sum has a deviation of about a power of two, so a step of four
deviations over 2^bits is a shift.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EXPERTS, RANDOM, Block, Codes, Layout
from safle.encoders.linear import (
    BY_CLASS_HELP,
    FRACTION_BITS,
    TRANSFORM_HELP,
    LinearEncoder,
    LinearSettings,
    Transform,
    choose_transform,
)
from safle.encoders.operations import Operations, T
from safle.encoders.registry import MAX_SEED, annotate
from safle.encoders.splitmix import hashes
from safle.errors import SettingsError

if TYPE_CHECKING:
    from safle.encoders.table import TableSettings

UNITS_PER_FEATURE = 16
MAX_UNITS = 8_192
UNITS_HELP = "Number of random features, the model's non-linear columns."
MAX_TERMS = 256
DEFAULT_TERMS = 16
RANGE_BITS = 2
"""The largest code is 2**2 deviations of a unit."""
BYTES_MEAN = 1020
"""The mean of a sum of eight bytes: ``8 * 127.5``."""
SQUARED_THRESHOLD = 48_171
"""The square of 0.7 over its deviation, times 2**32."""
MANY_UNITS = 3
"""Weighted sums of this many units of one sum of columns can vanish outside an interval."""
MANY_CLASSES = 20
"""With fewer classes, counting by class gains little beside random features: docs/heads.md."""
MAX_CLASS_BYTES = 2 << 30
"""Most bytes of all classes' grams at a server, unless the caller asks for them."""
_UNITS_AT_A_TIME = 1024
LANES = 16
"""Samples, and units, that the kernel takes at a time."""
encode_units = Kernel(
    "encode_units",
    "dense i2[samples, width]!; samples; width; dim; units",
    "rows u4[padded_units, terms] <2 * dim * 16 + 1; terms; shift; largest",
    "table i2[(2 * dim + 1) * 16]~",
    pieces="(samples + 15) // 16",
)


_UNITS = annotate(
    UNITS_HELP, minimum=1, maximum=MAX_EXPERTS, chosen="16 per feature, at most 8,192"
)
BITS = annotate("Bits of a random feature's code.", minimum=RANGE_BITS, maximum=8)
_TERMS = annotate(
    "Number of features that each random feature adds.",
    minimum=1,
    maximum=MAX_TERMS,
    chosen="16, or as many as there are",
)
SEED = annotate(
    "Seed of the features that each random feature adds, and of its threshold.",
    minimum=0,
    maximum=MAX_SEED,
)
_BY_CLASS_IF = "if 20 classes or more are declared, and 2 GB at the server hold their grams"
_SQUARE_ROOT_IF = "square-root if they are never negative, as pooled activations are, else none"


class _RandomFeatureSettings(LinearSettings, frozen=True):
    """Settings of a `RandomFeatureEncoder`."""

    units: Annotated[int, _UNITS] | None = None
    bits: Annotated[int, BITS] = 4
    terms: Annotated[int, _TERMS] | None = None
    seed: Annotated[int, SEED] = 0
    # Two more bits changed no accuracy, and cost a tenth of the bytes.
    fraction_bits: Annotated[int, FRACTION_BITS] = 6
    transform: Annotated[Transform, annotate(TRANSFORM_HELP, chosen=_SQUARE_ROOT_IF)] | None = None
    by_class: Annotated[bool, annotate(BY_CLASS_HELP, chosen=_BY_CLASS_IF)] | None = None

    def choose(self, calibration: Calibration, class_count: int) -> Self:
        dim = calibration.feature_dim
        by_class = suits_by_class(dim, class_count) if self.by_class is None else self.by_class
        return msgspec.structs.replace(
            self,
            units=self.units or min(UNITS_PER_FEATURE * dim, MAX_UNITS),
            terms=self.terms or min(dim, DEFAULT_TERMS),
            transform=self.transform or choose_transform(calibration),
            by_class=by_class,
        )


def suits_by_class(features: int, classes: int, least: int = MANY_CLASSES) -> bool:
    """Whether ``classes`` are counted by class if the caller does not decide: ``least`` or more.

    Examples
    --------
    >>> suits_by_class(512, 10), suits_by_class(1_280, 200), suits_by_class(512, 5_000)
    (False, True, False)
    """
    # 4 bytes an entry: few classes have so many samples that a sum needs more.
    gram = (features + 1) * (features + 2) // 2 * 4
    return classes >= least and classes * gram <= MAX_CLASS_BYTES


class RandomColumns:
    """Which of ``dim`` fixed-point columns each unit adds or subtracts, and its threshold.

    All of it follows from the settings; without ``has_thresholds``, thresholds are 0. Their scale
    is ``2**scale_bits`` that of a code whose largest value is four deviations.
    """

    def __init__(
        self,
        dim: int,
        settings: _RandomFeatureSettings | TableSettings,
        *,
        has_thresholds: bool = False,
        scale_bits: int = 0,
    ) -> None:
        self.dim = dim
        self.settings = settings
        self.has_thresholds = has_thresholds
        self.scale = 1 << settings.bits - RANGE_BITS + scale_bits
        self.count = int(settings.units or 0)
        self.terms = int(settings.terms or 0)
        if self.terms > dim:
            raise SettingsError(f"{self.terms} terms; expected at most {dim}, one per feature")
        if self.shift < 0:
            raise SettingsError(
                f"{settings.bits} bits with {settings.fraction_bits} fraction_bits make the "
                "steps of units finer than those of features; use more fraction_bits or fewer bits"
            )

    @property
    def shift(self) -> int:
        """log2 of a step: a unit's deviation, over 2^(bits - 2)."""
        # A sum of standardised features has the root of their number as its deviation.
        deviation = self.settings.fraction_bits + self.terms.bit_length() // 2
        return deviation + RANGE_BITS - self.settings.bits

    @property
    def largest_code(self) -> int:
        """The largest code of a unit."""
        return (1 << self.settings.bits) - 1

    @property
    def block(self) -> Block:
        """The columns of the units in a layout."""
        return Block(RANDOM, self.count, scale=self.scale, high=self.largest_code)

    @cached_property
    def _choices(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The columns that units add, and whether they subtract them; (units, terms) each.

        The ``terms`` smallest hashes of unit j (positions from ``j * dim`` on) choose its columns,
        and their lowest bits say which it subtracts.
        """
        columns = np.empty((self.count, self.terms), np.int64)
        negative = np.empty((self.count, self.terms), np.bool_)
        for first in range(0, self.count, _UNITS_AT_A_TIME):
            units = min(_UNITS_AT_A_TIME, self.count - first)
            keys = hashes(first * self.dim, units * self.dim, self.settings.seed)
            keys = keys.reshape(units, self.dim)
            rows = slice(first, first + units)
            columns[rows] = np.argsort(keys, axis=1, kind="stable")[:, : self.terms]
            negative[rows] = np.take_along_axis(keys, columns[rows], axis=1) & np.uint64(1)
        return columns, negative

    @cached_property
    def thresholds(self) -> NDArray[np.int32]:
        """What each unit subtracts from its sum, in codes, int32, (units,)."""
        keys = hashes(self.count * self.dim, self.count, self.settings.seed)
        sums = keys[:, None].view(np.uint8).sum(axis=1, dtype=np.int64) - BYTES_MEAN
        step = math.isqrt(SQUARED_THRESHOLD * self.terms << 2 * self.settings.fraction_bits)
        return (sums * step >> 16).astype(np.int32)

    @cached_property
    def rows(self) -> NDArray[np.uint32]:
        """`_choices` in the form that the kernel reads."""
        return rows_of_terms(*self._choices, self.dim)

    def signs(self) -> NDArray[np.float32]:
        """-1, 0 or 1 by column and unit; float32, (dim, units)."""
        columns, negative = self._choices
        signs = np.zeros((self.count, self.dim), np.float32)
        np.put_along_axis(signs, columns, np.where(negative, -1, 1).astype(np.float32), axis=1)
        return np.ascontiguousarray(signs.T)

    @cached_property
    def knots(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of columns that `MANY_UNITS` or more begin to add at different places.

        The sums' signs, (dim, sums), and the places, ascending and padded with infinity, (most
        units, sums). A unit that subtracts a sum begins at the negative of its threshold.
        """
        signs = self.signs().T.astype(np.float64)
        first = np.take_along_axis(signs, (signs != 0).argmax(axis=1)[:, None], axis=1)
        places: dict[tuple[float, ...], set[float]] = {}
        for direction, place in zip(signs * first, self.thresholds * first[:, 0], strict=True):
            places.setdefault(tuple(direction.tolist()), set()).add(float(place))
        many = {sums: sorted(found) for sums, found in places.items() if len(found) >= MANY_UNITS}
        most = max(map(len, many.values()), default=0)
        padded = [found + [np.inf] * (most - len(found)) for found in many.values()]
        directions = np.array([*many], np.float64).reshape(len(many), self.dim)
        return directions.T, np.array(padded, np.float64).reshape(len(many), most).T

    def express(self, ops: Operations[T], fixed: T) -> T:
        """The units of fixed-point columns, (samples, units)."""
        # At most 256 int16 per sum: below 2**24, so that float32 products are exact, also divided
        # by a power of two.
        step = 2.0**-self.shift
        steps = ops.product(ops.multiply(fixed, step), self.signs())
        moved = 0.5 - self.thresholds * step if self.has_thresholds else 0.5
        return ops.clip(ops.floor(ops.add(steps, moved)), 0, self.largest_code)


class RandomFeatureEncoder(LinearEncoder):
    """Features -> linear columns, a constant, and rectified sums of a few as small integers.

    Parameters
    ----------
    mean, deviation : float64, (feature_dim,)
        of the transformed features
    settings : those of the kind, which `safle encoder make --help` lists

    Examples
    --------
    >>> from safle import declared_range, make_encoder
    >>> encoder = make_encoder(declared_range(0, 1, feature_dim=16), units=32)
    >>> encoder.kind, encoder.encode([[0.5] * 16]).dense.shape
    ('random-features', (1, 49))
    """

    kind = "random-features"
    summary = "the strongest without a public sample: standardised features and rectified sums"
    settings_type = _RandomFeatureSettings
    settings: _RandomFeatureSettings

    def __init__(
        self, mean: NDArray[np.float64], deviation: NDArray[np.float64], **settings: Any
    ) -> None:
        super().__init__(mean, deviation, **settings)
        self.random = RandomColumns(self.feature_dim, self.settings)

    @cached_property
    def layout(self) -> Layout:
        return Layout([*super().layout.blocks, self.random.block])

    def express(self, ops: Operations[T], features: T) -> tuple[None, T]:
        fixed = self.fixed_point(ops, features)
        linear = ops.append(fixed, self.scale)
        return None, ops.join([linear, self.random.express(ops, fixed)])

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        codes = super().encode_checked(features)
        random = self.random
        # The kernel writes units behind the linear columns: a few additions each, no product.
        encode_units(
            codes.dense,
            self.feature_dim,
            random.count,
            random.rows,
            random.shift,
            random.largest_code,
        )
        return codes


def rows_of_terms(
    features: NDArray[np.integer[Any]], negative: NDArray[np.bool_], dim: int
) -> NDArray[np.uint32]:
    """What units add, as rows in a table of ``dim`` features, their negatives and a zero.

    ``features``, below ``dim``, and ``negative`` are (units, terms); rows are padded to `LANES`.
    """
    units, terms = features.shape
    rows = np.full((units + -units % LANES, terms), 2 * dim, np.uint32)
    rows[:units] = np.where(negative, dim + features, features)
    return rows * np.uint32(LANES)
