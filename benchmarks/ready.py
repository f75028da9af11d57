"""Codes made beforehand, dressed as an encoder: so that what comes after is timed alone."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle import Contract, Encoder
from safle.basics.tensors import Arrays
from safle.encoders.calibration import Calibration
from safle.encoders.codes import Codes, Layout, tables_of
from safle.encoders.operations import Operations, T


class ReadyCodes(Encoder):
    """Consecutive sample numbers, (samples, 1), -> the codes of those samples.

    Attributes
    ----------
    numbers : float64, (samples, 1), of all samples
    """

    kind = "benchmark-ready-codes"

    def __init__(self, symbols: NDArray[np.unsignedinteger], sizes: tuple[int, ...]) -> None:
        super().__init__(Contract(1))
        self._symbols, self._sizes = symbols, sizes
        self.numbers = np.arange(len(symbols), dtype=np.float64)[:, None]

    @cached_property
    def layout(self) -> Layout:
        return Layout(tables_of(self._sizes))

    def arrays(self) -> Arrays:
        return {}

    @classmethod
    def measure(cls, calibration: Calibration, settings: Any) -> dict[str, Any]:
        del calibration, settings
        raise TypeError("codes made beforehand are given, not calibrated")

    def express(self, ops: Operations[T], features: T) -> tuple[T, None]:
        del ops, features
        raise TypeError("codes made beforehand are not computed")

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        first = int(features[0, 0])
        symbols = self._symbols[first : first + len(features)]
        return Codes(symbols, np.empty((len(symbols), 0), np.int16))
