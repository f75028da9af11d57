"""A kind of encoder in a file of its own: what a stranger writes to add one.

Every feature is below, around or above its mean: three symbols; and one dense column adds
them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from safle.encoders import Encoder
from safle.encoders.codes import Layout
from safle.encoders.operations import Expressed, Operations, T
from safle.encoders.settings import Settings, setting


@dataclass(frozen=True)
class ToySettings(Settings):
    reach: int = setting(2, "Quarters of a deviation that lie around the mean.", least=0, most=8)


class ToyEncoder(Encoder):
    kind = "toy"
    summary = "below, around or above the mean"
    settings_type: ClassVar[type[ToySettings]] = ToySettings
    settings: ToySettings

    def __init__(self, borders: np.ndarray, **settings: Any) -> None:
        super().__init__(**settings)
        self.borders = np.array(borders, np.float64)
        self.feature_dim = self.borders.shape[1]

    @classmethod
    def _calibrated(cls, calibration: Any, **settings: Any) -> Self:
        chosen = cls.settings_type.of(settings)
        mean, deviation = calibration.moments()
        reach = chosen.reach / 4 * deviation
        return cls(np.stack([mean - reach, mean + reach]), **chosen.to_dict())

    @cached_property
    def layout(self) -> Layout:
        return Layout((3,) * self.feature_dim, (4,), ((0, 2 * self.feature_dim),))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"borders": self.borders}

    def express(self, ops: Operations[T], features: T) -> Expressed[T]:
        symbols = ops.levels(features, self.borders)
        return Expressed(symbols, ops.product(symbols, np.ones((self.feature_dim, 1), np.float32)))

    def plausible_features(self, samples: int, generator: np.random.Generator) -> np.ndarray:
        width = np.ptp(self.borders, axis=0) + 1
        return self.borders[0] + width * generator.standard_normal((samples, self.feature_dim))
