"""Random features in few-bit integers: what bends the linear model, still counted exactly.

Unit j adds ``terms`` of the standardised fixed-point features with signs, drops what is
negative and keeps ``bits`` bits:

    ``code_j = min(2^bits - 1, floor(max(0, sum_t s_jt c_f(j,t)) / 2^shift + 1/2))``.

All of it is integer arithmetic, so the codes are the same on every machine, and a gram of
few-bit codes is an exact matrix of small integers. ``terms`` is a power of four: the sum
of that many features has a deviation of a power of two, and a step of four deviations over
2^bits is a shift.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle._internal.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EXPERTS, Codes, Layout
from safle.encoders.features import as_integer
from safle.encoders.linear import LinearEncoder
from safle.encoders.shuffle import hashes
from safle.errors import SettingsError

DEFAULT_TERMS, DEFAULT_BITS = 16, 4
MOST_TERMS, MOST_BITS = 256, 8
RANGE_BITS = 2
"""The largest code stands for 2**2 deviations of a unit."""
WORTH_BITS = 1
"""A unit's real value is its sum in deviations, over 2**1.

So one ridge for all columns leaves the linear ones beside them four times freer, which
generalised cross-validation preferred on every data set tried: see docs/heads.md.
"""
_UNITS_AT_A_TIME = 1024
_SETTINGS = ("count", "terms", "bits", "seed")


class RandomFeatureEncoder(Encoder):
    """Features -> rectified sums of a few of them, as small integers, and a constant.

    Parameters
    ----------
    linear : standardises the features
    count : units
    terms : features a unit adds: 1, 4, 16, 64 or 256, at most feature_dim
    bits : of a code, 2 to 8
    seed : of the choice of features and signs
    """

    kind = "random-features"

    def __init__(
        self,
        linear: LinearEncoder,
        *,
        count: int,
        terms: int = DEFAULT_TERMS,
        bits: int = DEFAULT_BITS,
        seed: int = 0,
    ) -> None:
        self.linear = linear
        self.feature_dim = linear.feature_dim
        self.count = as_integer("count", count)
        self.terms = as_integer("terms", terms)
        self.bits = as_integer("bits", bits)
        self.seed = as_integer("seed", seed)
        if not 1 <= self.count <= MAX_EXPERTS:
            raise SettingsError(f"count {count}; expected 1..{MAX_EXPERTS}")
        powers = [4**i for i in range(5) if 4**i <= min(self.feature_dim, MOST_TERMS)]
        if self.terms not in powers:
            raise SettingsError(
                f"terms {terms} of {self.feature_dim} features; expected one of "
                f"{', '.join(map(str, powers))}"
            )
        if not RANGE_BITS <= self.bits <= MOST_BITS:
            raise SettingsError(f"bits {bits}; expected {RANGE_BITS}..{MOST_BITS}")
        if self.shift < 0:
            raise SettingsError(
                f"{self.bits} bits of a sum with {linear.fraction_bits} fraction bits: the step "
                "would be finer than the features; use more fraction_bits or fewer bits"
            )
        hashes(0, 1, self.seed)

    @classmethod
    def calibrated(
        cls, calibration: Calibration, *, count: int, transform: str = "none", **settings: int
    ) -> Self:
        """An encoder of features standardised by the calibration's moments."""
        linear = LinearEncoder.calibrated(calibration, transform=transform)
        return cls(linear, count=count, **settings)

    @property
    def shift(self) -> int:
        """log2 of a step: a unit's deviation, over 2^(bits - 2)."""
        deviation = self.linear.fraction_bits + (self.terms.bit_length() - 1) // 2
        return deviation + RANGE_BITS - self.bits

    @cached_property
    def layout(self) -> Layout:
        limits = ((0, (1 << self.bits) - 1),) * self.count + ((self.scale, self.scale),)
        return Layout((), (self.scale,) * len(limits), limits)

    @property
    def scale(self) -> int:
        """Codes a real unit; also the constant's code."""
        return 1 << self.bits - RANGE_BITS + WORTH_BITS

    def settings(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in (*_SETTINGS, "scale")}
        return {"linear": self.linear.settings(), **own}

    def arrays(self) -> Arrays:
        return self.linear.arrays()

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        own = {name: settings[name] for name in _SETTINGS}
        if any(type(value) is not int for value in own.values()):
            raise SettingsError(f"{', '.join(_SETTINGS)} must be integers")
        encoder = cls(LinearEncoder.restore(settings["linear"], arrays), **own)
        if settings["scale"] != encoder.scale:
            raise SettingsError(
                f"random features of scale {settings['scale']}; this safle has {encoder.scale}: "
                "another version made the encoder, make it again"
            )
        return encoder

    @cached_property
    def signs(self) -> NDArray[np.float32]:
        """-1, 0 or 1 by feature and unit; float32, (feature_dim, count).

        Of the hashes of unit j (positions ``j * feature_dim`` and on), the ``terms``
        smallest say which features it adds, and their lowest bits which it subtracts.
        """
        signs = np.zeros((self.count, self.feature_dim), np.float32)
        for first in range(0, self.count, _UNITS_AT_A_TIME):
            units = min(_UNITS_AT_A_TIME, self.count - first)
            keys = hashes(first * self.feature_dim, units * self.feature_dim, self.seed)
            keys = keys.reshape(units, self.feature_dim)
            chosen = np.argsort(keys, axis=1, kind="stable")[:, : self.terms]
            odd = np.take_along_axis(keys, chosen, axis=1) & np.uint64(1)
            values = np.where(odd == 1, np.float32(-1), np.float32(1))
            np.put_along_axis(signs[first : first + units], chosen, values, axis=1)
        return np.ascontiguousarray(signs.T)

    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.linear.plausible_features(samples, generator)

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        fixed = self.linear.fixed_point(features).astype(np.float32)
        # At most 256 int16 a sum: below 2**24, so that float32 products are exact.
        sums = fixed @ self.signs
        codes = (sums.astype(np.int32) + ((1 << self.shift) >> 1)) >> self.shift
        dense = np.full((len(features), self.count + 1), self.scale, np.int16)
        np.clip(codes, 0, (1 << self.bits) - 1, out=dense[:, :-1], casting="same_kind")
        return Codes(np.empty((len(features), 0), np.uint8), dense)
