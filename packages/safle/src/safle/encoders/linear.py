"""The linear encoder: standardised features as fixed-point integers, as in AFL.

``code_f = round((t(x_f) - mean_f) / deviation_f * 2^fraction_bits)`` in float64, halves to even,
clipped to +-32767; then a constant column of ``2^fraction_bits``. ``t(x)`` is x, or ``sign(x)
sqrt(|x|)``: pooled activations are skewed, and a square root makes them more alike at no cost.

With a ``norm_clip`` B > 0, let L be the length of a sample's codes without the constant, rounded
up, and ``M = B * 2^fraction_bits``. If L > M, every code c becomes ``c * M / L``, rounded towards
zero. M limits what one sample adds, and the noise of differential privacy is measured by it.
The layout then has the ``norm`` M: the block's columns form a vector no longer than that.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.basics.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration, Vector
from safle.encoders.codes import DENSE_LIMIT, LINEAR, Block, Codes, Layout
from safle.encoders.operations import NumpyOperations, Operations, T
from safle.encoders.registry import Settings, annotate
from safle.errors import SettingsError
from safle.tables.contract import Contract

QUANTILES = 255
"""How many quantiles of a feature give the moments of the transformed feature."""
BY_CLASS_HELP = (
    "Count the gram of the linear columns for each class, which the quadratic head needs."
)
ByClass = Annotated[bool, annotate(BY_CLASS_HELP)]
TRANSFORM_HELP = "Applied to features before they are standardised."
Transform = Annotated[Literal["none", "square-root"], annotate(TRANSFORM_HELP)]
FRACTION_BITS = annotate("Bits behind the binary point of linear codes.", minimum=0, maximum=12)
NORM_CLIP = annotate(
    "Largest length of a sample, in deviations: longer ones are shortened. 0: no limit.",
    minimum=0,
    maximum=1 << 20,
)
fix = Kernel(
    "fix",
    "features f4|f8[samples, dim]; dim; mean f8[dim]; deviation f8[dim]",
    "scale; root; longest; dense i2[samples, width]!; width",
    pieces="samples",
)


class LinearSettings(Settings, frozen=True):
    """Settings of a `LinearEncoder`."""

    fraction_bits: Annotated[int, FRACTION_BITS] = 8
    transform: Transform | None = "none"
    norm_clip: Annotated[int, NORM_CLIP] = 0
    by_class: ByClass | None = False


class LinearEncoder(Encoder):
    """Features -> dense fixed-point integers and a constant.

    Parameters
    ----------
    mean, deviation : float64, (feature_dim,)
        of the transformed features
    settings : see `LinearSettings`

    Examples
    --------
    >>> LinearEncoder([10.0], [2.0], fraction_bits=4).encode([[13.0]]).dense.tolist()
    [[24, 16]]
    """

    kind = "linear"
    summary = "AFL's: standardised features as fixed-point integers"
    settings_type: ClassVar[type[LinearSettings]] = LinearSettings
    settings: LinearSettings

    def __init__(
        self, mean: NDArray[np.float64], deviation: NDArray[np.float64], **settings: Any
    ) -> None:
        self.mean = np.array(mean, np.float64)
        self.deviation = np.array(deviation, np.float64)
        super().__init__(Contract(self.mean.size), **settings)
        if self.mean.ndim != 1 or self.mean.shape != self.deviation.shape:
            raise SettingsError(
                f"mean has shape {self.mean.shape} and deviation {self.deviation.shape}; "
                "expected one number per feature in each"
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.deviation).all()):
            raise SettingsError("mean and deviation must be finite")
        if (self.deviation <= 0).any():
            raise SettingsError("deviations must be positive")

    @classmethod
    def measure(cls, calibration: Calibration, settings: LinearSettings) -> dict[str, Any]:
        mean, deviation = transformed_moments(calibration, str(settings.transform))
        return {"mean": mean, "deviation": deviation}

    @classmethod
    def publishable(cls, calibration: Calibration, **settings: Any) -> Self:
        """An encoder whose sums need little noise to be published.

        It clips samples to half the squared length that independent features would have: nearly
        all samples then have one length, and the noise need not hide a longer one.

        >>> from safle import declared_range
        >>> LinearEncoder.publishable(declared_range(0, 1, feature_dim=512)).settings.norm_clip
        16
        """
        clip = max(1, math.isqrt(calibration.feature_dim // 2))
        chosen: dict[str, Any] = {"norm_clip": clip, "transform": choose_transform(calibration)}
        return cls.calibrated(calibration, **chosen | settings)

    @property
    def scale(self) -> int:
        """Codes per deviation; also the constant's code."""
        return 1 << self.settings.fraction_bits

    @property
    def norm_limit(self) -> int:
        """Largest length of a sample's codes without the constant; 0: no limit."""
        return self.settings.norm_clip << self.settings.fraction_bits

    @cached_property
    def layout(self) -> Layout:
        block = partial(Block, LINEAR, scale=self.scale, by_class=bool(self.settings.by_class))
        constant = block(low=self.scale, high=self.scale)
        if not self.feature_dim:
            return Layout([constant])
        features = block(
            columns=self.feature_dim, low=-DENSE_LIMIT, high=DENSE_LIMIT, norm=self.norm_limit
        )
        return Layout([features, constant])

    def arrays(self) -> Arrays:
        return {"mean": self.mean, "deviation": self.deviation}

    def fixed_point(self, ops: Operations[T], features: T) -> T:
        """The codes of the features, without the constant, (samples, feature_dim)."""
        if self.settings.transform == "square-root":
            features = ops.root(features)
        values = ops.divide(ops.subtract(features, self.mean), self.deviation)
        codes = ops.clip(ops.round(ops.multiply(values, self.scale)), -DENSE_LIMIT, DENSE_LIMIT)
        return ops.shorten(codes, self.norm_limit) if self.norm_limit else codes

    def express(self, ops: Operations[T], features: T) -> tuple[None, T]:
        return None, ops.append(self.fixed_point(ops, features), self.scale)

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        # The same codes as `express` computes, in one pass over memory.
        dense = np.empty((len(features), self.layout.dense_dim), np.int16)
        dense[:, self.feature_dim] = self.scale
        root = self.settings.transform == "square-root"
        scale = float(self.scale)
        fix(features, self.mean, self.deviation, scale, int(root), self.norm_limit, dense)
        return Codes(np.empty((len(features), 0), self.layout.symbol_type), dense)


def invert_transform(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """The values that the transform ``name`` maps to ``values``, except for rounding."""
    return np.copysign(values**2, values) if name == "square-root" else values


def choose_transform(calibration: Calibration) -> str:
    """The square root for features that are never negative, like pooled activations."""
    never_negative = (calibration.thresholds(QUANTILES) >= 0).all()
    return "square-root" if never_negative else "none"


def transformed_moments(calibration: Calibration, name: str) -> tuple[Vector, Vector]:
    """Mean and deviation of transformed features, float64, (feature_dim,) each.

    Every calibration knows quantiles, and a monotone transform maps quantiles to quantiles.
    """
    if name == "none":
        return calibration.mean, calibration.deviation
    points = NumpyOperations().root(calibration.thresholds(QUANTILES))
    deviation = points.std(axis=0)
    # Rounding of the mean would give a constant feature a deviation of 1e-17.
    varies = points.max(axis=0) > points.min(axis=0)
    return points.mean(axis=0), np.where(varies, deviation, 1.0)
