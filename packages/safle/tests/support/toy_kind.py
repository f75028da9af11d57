"""A kind of encoder in a file of its own: what a stranger writes to add one.

Every feature is below, around or above its mean: three symbols; and one dense column adds
them up.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from safle import Contract, Encoder
from safle.encoders.codes import Block, Layout
from safle.encoders.operations import Operations, T
from safle.encoders.registry import Settings, annotate

REACH = annotate("Quarters of a deviation that lie around the mean.", minimum=0, maximum=8)


class ToySettings(Settings, frozen=True):
    reach: Annotated[int, REACH] = 2


class ToyEncoder(Encoder):
    kind = "toy"
    summary = "below, around or above the mean"
    settings_type: ClassVar[type[ToySettings]] = ToySettings
    settings: ToySettings

    def __init__(self, borders: np.ndarray, **settings: Any) -> None:
        self.borders = np.array(borders, np.float64)
        super().__init__(Contract(self.borders.shape[1]), **settings)

    @classmethod
    def measure(cls, calibration: Any, settings: ToySettings) -> dict[str, Any]:
        reach = settings.reach / 4 * calibration.deviation
        return {"borders": np.stack([calibration.mean - reach, calibration.mean + reach])}

    @cached_property
    def layout(self) -> Layout:
        return Layout(
            [
                Block("tables", self.feature_dim, rows=3),
                Block("sums", scale=4, high=2 * self.feature_dim),
            ]
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {"borders": self.borders}

    def express(self, ops: Operations[T], features: T) -> tuple[T, T]:
        symbols = ops.levels(features, self.borders)
        return symbols, ops.product(symbols, np.ones((self.feature_dim, 1), np.float32))
