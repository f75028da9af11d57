"""Random features in few-bit integers: what bends the linear model, still counted exactly.

Beside the d linear columns and their constant, unit j takes the SplitMix64 outputs number ``j d +
f + 1`` of the seed as keys of the features f = 0 to d - 1. It adds the linear codes of the
``terms`` features with the smallest keys (ties by f), negated where the key is odd, takes off a
threshold b_j (of tables; 0 here) and keeps ``bits`` bits of what is positive:

    ``code_j = min(2^bits - 1, floor(max(0, sum_j - b_j) / 2^shift + 1/2))``

with ``shift = fraction_bits + floor(b / 2) + 2 - bits``, b the bits of the number ``terms``. The
scale of a unit is ``2^(bits - 2)``. All of it is integer arithmetic: every machine computes the
same codes. The sum has a deviation of about a power of two, so a step of four deviations over
2^bits is a shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EXPERTS, Codes, Layout
from safle.encoders.kernels.units import encode_units, rows_of_terms
from safle.encoders.linear import (
    BY_CLASS,
    TRANSFORMS,
    LinearEncoder,
    LinearSettings,
    suiting_transform,
)
from safle.encoders.operations import Expressed, Operations, T
from safle.encoders.settings import MOST_SEED, setting
from safle.encoders.shuffle import hashes
from safle.errors import SettingsError

UNITS_PER_FEATURE, MOST_UNITS = 16, 8_192
MOST_TERMS, DEFAULT_TERMS = 256, 16
RANGE_BITS = 2
"""The largest code stands for 2**2 deviations of a unit."""
BYTES_MEAN, SQUARED_THRESHOLD = 1020, 48_171
"""The mean of a sum of eight bytes; and the square of 0.7 over its deviation, times 2**32."""
MANY_CLASSES = 20
"""With fewer classes, counting by class gains little beside random features: docs/heads.md."""
MOST_CLASS_BYTES = 2 << 30
"""What all classes' grams may take at a server, unless it is asked for."""
_UNITS_AT_A_TIME = 1024


@dataclass(frozen=True)
class RandomFeatureSettings(LinearSettings):
    """Settings of a `RandomFeatureEncoder`."""

    units: int | None = setting(
        None,
        "Random features: columns that bend the linear model.",
        least=1,
        most=MAX_EXPERTS,
        chosen="16 per feature, at most 8,192",
    )
    bits: int = setting(4, "Bits of a random feature's code.", least=RANGE_BITS, most=8)
    terms: int | None = setting(
        None,
        "Features that a unit adds.",
        least=1,
        most=MOST_TERMS,
        chosen="16, or as many as there are",
    )
    seed: int = setting(
        0, "Chooses the features that a unit adds, and its threshold.", least=0, most=MOST_SEED
    )
    # Two more bits changed no accuracy, and cost a tenth of the bytes.
    fraction_bits: int = setting(
        6, "Bits behind the binary point of linear codes.", least=0, most=12
    )
    transform: str | None = setting(
        None,
        "Applied to features before they are standardised.",
        choices=TRANSFORMS,
        chosen="square-root if they are never negative, as pooled activations are, else none",
    )

    by_class: bool | None = setting(
        None,
        BY_CLASS,
        chosen="if 20 classes or more are declared, and 2 GB at the server hold their grams",
    )

    def choose(self, calibration: Calibration) -> Self:
        dim, chosen = calibration.feature_dim, self
        if self.by_class is None:
            classes = len(getattr(calibration, "classes", ()))
            chosen = replace(chosen, by_class=suits_by_class(dim, classes))
        if self.units is None:
            chosen = replace(chosen, units=min(UNITS_PER_FEATURE * dim, MOST_UNITS))
        if self.terms is None:
            chosen = replace(chosen, terms=min(dim, DEFAULT_TERMS))
        if self.transform is None:
            chosen = replace(chosen, transform=suiting_transform(calibration))
        return chosen

    @classmethod
    def draw(cls, generator: np.random.Generator, feature_dim: int) -> Self:
        terms = int(generator.integers(1, min(feature_dim, MOST_TERMS) + 1))
        drawn = replace(super().draw(generator, feature_dim), bits=2, terms=terms)
        finest = drawn.fraction_bits + _root_bits(terms) + RANGE_BITS
        return replace(drawn, bits=int(generator.integers(2, min(8, finest) + 1)))


def suits_by_class(features: int, classes: int) -> bool:
    """Whether random features are counted by class, where nobody says.

    Examples
    --------
    >>> suits_by_class(512, 10), suits_by_class(1_280, 200), suits_by_class(512, 5_000)
    (False, True, False)
    """
    # Sums of 32 bits: wider ones are for more samples than a class mostly has.
    gram = (features + 1) * (features + 2) // 2 * 4
    return classes >= MANY_CLASSES and classes * gram <= MOST_CLASS_BYTES


def _root_bits(terms: int) -> int:
    """log2 of the deviation of a sum of so many standardised features, rounded."""
    return terms.bit_length() // 2


class Units:
    """What units add and take off, by settings alone.

    Parameters
    ----------
    dim : how many fixed-point columns they add from
    settings : what is None is not allowed
    bent_anywhere : whether units have thresholds
    """

    def __init__(
        self, dim: int, settings: RandomFeatureSettings, *, bent_anywhere: bool = False
    ) -> None:
        self.dim, self.settings, self.bent_anywhere = dim, settings, bent_anywhere
        self.count, self.terms = int(settings.units or 0), int(settings.terms or 0)
        if self.terms > dim:
            raise SettingsError(f"terms {self.terms} of {dim} features; take fewer")
        if self.shift < 0:
            raise SettingsError(
                f"{settings.bits} bits of a sum with {settings.fraction_bits} fraction "
                "bits: the step would be finer than the features; use more fraction_bits or "
                "fewer bits"
            )

    @property
    def shift(self) -> int:
        """log2 of a step: a unit's deviation, over 2^(bits - 2)."""
        deviation = self.settings.fraction_bits + _root_bits(self.terms)
        return deviation + RANGE_BITS - self.settings.bits

    @property
    def largest(self) -> int:
        """The largest code of a unit."""
        return (1 << self.settings.bits) - 1

    def beside(self, linear: Layout) -> Layout:
        """The layout of these columns and of the units behind them."""
        scale = 1 << self.settings.bits - RANGE_BITS
        return replace(
            linear,
            dense_scales=linear.dense_scales + (scale,) * self.count,
            dense_limits=linear.dense_limits + ((0, self.largest),) * self.count,
            units=self.count,
        )

    @cached_property
    def _added(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What units add: columns, and whether they are subtracted; (units, terms) each.

        Of the hashes of unit j (positions ``j * dim`` and on), the ``terms`` smallest say which
        columns it adds, and their lowest bits which it subtracts.
        """
        columns = np.empty((self.count, self.terms), np.int64)
        negative = np.empty((self.count, self.terms), np.bool_)
        for first in range(0, self.count, _UNITS_AT_A_TIME):
            units = min(_UNITS_AT_A_TIME, self.count - first)
            keys = hashes(first * self.dim, units * self.dim, self.settings.seed)
            keys, rows = keys.reshape(units, self.dim), slice(first, first + units)
            columns[rows] = np.argsort(keys, axis=1, kind="stable")[:, : self.terms]
            negative[rows] = np.take_along_axis(keys, columns[rows], axis=1) & np.uint64(1)
        return columns, negative

    @cached_property
    def thresholds(self) -> NDArray[np.int32]:
        """What is taken off the sum of each unit, in codes, int32, (units,)."""
        keys = hashes(self.count * self.dim, self.count, self.settings.seed)
        sums = keys[:, None].view(np.uint8).sum(axis=1, dtype=np.int64) - BYTES_MEAN
        step = math.isqrt(SQUARED_THRESHOLD * self.terms << 2 * self.settings.fraction_bits)
        return (sums * step >> 16).astype(np.int32)

    @cached_property
    def rows(self) -> NDArray[np.uint32]:
        """`_added` as the kernel wants it."""
        return rows_of_terms(*self._added, self.dim)

    def signs(self) -> NDArray[np.float32]:
        """-1, 0 or 1 by column and unit; float32, (dim, units)."""
        columns, negative = self._added
        signs = np.zeros((self.count, self.dim), np.float32)
        np.put_along_axis(signs, columns, np.where(negative, -1, 1).astype(np.float32), axis=1)
        return np.ascontiguousarray(signs.T)

    def express(self, ops: Operations[T], fixed: T) -> T:
        """The units of fixed-point columns, (samples, units)."""
        # At most 256 int16 per sum: below 2**24, so that float32 products are exact.
        sums = ops.product(fixed, self.signs())
        if self.bent_anywhere:
            sums = ops.subtract(sums, self.thresholds.astype(np.float64))
        steps = ops.divide(sums, 1 << self.shift)
        return ops.clip(ops.floor(ops.add(steps, 0.5)), 0, self.largest)


class RandomFeatureEncoder(LinearEncoder):
    """Features -> the linear columns, a constant, rectified sums of a few as small integers.

    Parameters
    ----------
    mean, deviation : float64, (feature_dim,)
        of the transformed features
    settings : see `RandomFeatureSettings`

    Examples
    --------
    >>> from safle import DeclaredRange, make_encoder
    >>> encoder = make_encoder(DeclaredRange(0, 1, feature_dim=16), units=32)
    >>> encoder.kind, encoder.encode([[0.5] * 16]).dense.shape
    ('random-features', (1, 49))
    """

    kind = "random-features"
    summary = "the strongest: standardised features and rectified sums of them"
    settings_type = RandomFeatureSettings
    settings: RandomFeatureSettings

    def __init__(
        self, mean: NDArray[np.float64], deviation: NDArray[np.float64], **settings: Any
    ) -> None:
        super().__init__(mean, deviation, **settings)
        self.units = Units(self.feature_dim, self.settings)

    @cached_property
    def layout(self) -> Layout:
        return self.units.beside(super().layout)

    def express(self, ops: Operations[T], features: T) -> Expressed[T]:
        fixed = self.fixed_point(ops, features)
        linear = ops.append(fixed, self.scale)
        return Expressed(dense=ops.join([linear, self.units.express(ops, fixed)]))

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        codes, units = super().encode_checked(features), self.units
        # A few additions per unit instead of a product.
        numbers = {"shift": units.shift, "largest": units.largest}
        encode_units(codes.dense, self.feature_dim, units.count, units.rows, **numbers)
        return codes
