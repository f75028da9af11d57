"""Standardised features as fixed-point integers: AFL in the same pipeline.

``code_f = round(2^b (t(x_f) - mean_f) / deviation_f)``, clipped to int16, and a constant
column, where t is a declared transform (none, or a square root): the gram of a linear model
is an exact integer matrix as well. With b = 8 the rounding adds 0.1 % of a deviation, and
values clip at 128 deviations.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle._internal.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration
from safle.encoders.codes import DENSE_LIMIT, WIDEST, Codes, Layout
from safle.encoders.features import as_integer
from safle.encoders.transform import (
    check_transform,
    restored,
    transformed,
    transformed_moments,
)
from safle.errors import SettingsError

DEFAULT_FRACTION_BITS = 8
MAX_FRACTION_BITS = 12


class LinearEncoder(Encoder):
    """Features -> dense fixed-point integers and a constant.

    Parameters
    ----------
    mean, deviation : float64, (feature_dim,)
        of the transformed features
    fraction_bits : b, bits behind the binary point
    transform : "none", or "square-root" for skewed features (see `safle.encoders.transform`)
    """

    kind = "linear"

    def __init__(
        self,
        mean: NDArray[np.float64],
        deviation: NDArray[np.float64],
        *,
        fraction_bits: int = DEFAULT_FRACTION_BITS,
        transform: str = "none",
    ) -> None:
        self.transform = check_transform(transform)
        self.mean = np.array(mean, np.float64)
        self.deviation = np.array(deviation, np.float64)
        self.fraction_bits = as_integer("fraction_bits", fraction_bits)
        if self.mean.ndim != 1 or not self.mean.size or self.mean.shape != self.deviation.shape:
            raise SettingsError(
                f"mean has shape {self.mean.shape} and deviation {self.deviation.shape}; "
                "expected (feature_dim,) for both"
            )
        if not np.isfinite(self.mean).all() or not np.isfinite(self.deviation).all():
            raise SettingsError("mean and deviation must be finite")
        if (self.deviation <= 0).any():
            raise SettingsError("deviations must be positive; use 1 for constant features")
        if not 0 <= self.fraction_bits <= MAX_FRACTION_BITS:
            raise SettingsError(f"fraction_bits {fraction_bits}; expected 0..{MAX_FRACTION_BITS}")
        self.feature_dim = len(self.mean)

    @classmethod
    def calibrated(
        cls,
        calibration: Calibration,
        *,
        fraction_bits: int = DEFAULT_FRACTION_BITS,
        transform: str = "none",
    ) -> Self:
        """An encoder that standardises by the calibration's moments."""
        moments = transformed_moments(calibration, check_transform(transform))
        return cls(*moments, fraction_bits=fraction_bits, transform=transform)

    @cached_property
    def layout(self) -> Layout:
        scale = 1 << self.fraction_bits
        limits = (WIDEST,) * self.feature_dim + ((scale, scale),)
        return Layout((), (scale,) * len(limits), limits)

    def settings(self) -> dict[str, Any]:
        # What is not used is not mentioned: the fingerprint of a plain one stays what it was.
        used = {} if self.transform == "none" else {"transform": self.transform}
        return {"fraction_bits": self.fraction_bits, **used}

    def arrays(self) -> Arrays:
        return {"mean": self.mean, "deviation": self.deviation}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        if type(settings["fraction_bits"]) is not int:
            raise SettingsError("fraction_bits must be an integer")
        return cls(
            arrays["mean"],
            arrays["deviation"],
            fraction_bits=settings["fraction_bits"],
            transform=settings.get("transform", "none"),
        )

    def fixed_point(self, features: NDArray[Any]) -> NDArray[np.int16]:
        """The features alone, without the constant; int16, (samples, feature_dim)."""
        # float64 whatever the features' type: the codes must not depend on it.
        with np.errstate(over="ignore"):
            values = transformed(features.astype(np.float64), self.transform)
            values = (values - self.mean) / self.deviation
            np.clip(
                np.rint(values * (1 << self.fraction_bits)), -DENSE_LIMIT, DENSE_LIMIT, out=values
            )
        return values.astype(np.int16)

    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        drawn = generator.standard_normal((samples, self.feature_dim))
        return restored(drawn * self.deviation + self.mean, self.transform)

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        constant = np.full((len(features), 1), 1 << self.fraction_bits, np.int16)
        dense = np.concatenate([self.fixed_point(features), constant], axis=1)
        return Codes(np.empty((len(features), 0), np.uint8), dense)
