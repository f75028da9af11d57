"""The few array operations with which a kind of encoder describes what it computes.

`NumpyOperations` computes; `safle.model.export` writes the same operations as an ONNX graph. Every
value is float64, (samples, columns), which is exact for all integers that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle._native.cores import blas_for

Array = NDArray[Any]
T = TypeVar("T")


class Operations(Protocol[T]):
    """The operations of a kind on features ``x``, (samples, columns).

    Constants are arrays or numbers that the encoder knows beforehand.
    """

    def gather(self, x: T, columns: Array) -> T:
        """The columns at these positions, in this order."""

    def inside(self, x: T, low: Array, high: Array) -> T:
        """1 where ``low < x <= high``, else 0."""

    def levels(self, x: T, thresholds: Array) -> T:
        """How many of a column's thresholds, (count, columns), lie below the value."""

    def compose(self, x: T, places: Array) -> T:
        """``sum_i x[:, i * columns + j] * places[i, j]``, for places (digits, columns)."""

    def fill(self, x: T, value: Array | float) -> T:
        """``value``, a number or one per column, where x is missing (NaN)."""

    def root(self, x: T) -> T:
        """``sign(x) sqrt(|x|)``."""

    def add(self, x: T, constant: Array | float) -> T: ...
    def subtract(self, x: T, constant: Array | float) -> T: ...
    def multiply(self, x: T, constant: Array | float) -> T: ...
    def divide(self, x: T, constant: Array | float) -> T: ...
    def floor(self, x: T) -> T: ...

    def round(self, x: T) -> T:
        """To the nearest integer, halves to the even one."""

    def clip(self, x: T, low: float, high: float) -> T: ...

    def shorten(self, x: T, most: int) -> T:
        """Rows of integers, shortened to a length of at most ``most``.

        A longer row is multiplied by ``most`` over its rounded-up length, and each value rounded
        towards zero: exact in float64 where squares sum to less than 2**52.
        """

    def times(self, x: T, y: T) -> T:
        """The products of the columns of x with those of y."""

    def product(self, x: T, matrix: Array) -> T:
        """``x @ matrix``, float32: integers times a power of two, whose sums stay below 2**24."""

    def integer_product(self, x: T, matrix: Array) -> T:
        """``x @ matrix`` of integers of 16 bits, whose sums stay below 2**53."""

    def append(self, x: T, value: float) -> T:
        """``x`` and one more column, which holds ``value``."""

    def join(self, parts: Sequence[T]) -> T:
        """The columns of all parts, in their order."""


class NumpyOperations:
    """The operations on float64 arrays."""

    def gather(self, x: Array, columns: Array) -> Array:
        return x[:, columns]

    def inside(self, x: Array, low: Array, high: Array) -> Array:
        return ((x > low) & (x <= high)).astype(np.float64)

    def levels(self, x: Array, thresholds: Array) -> Array:
        pairs = zip(thresholds.T, x.T, strict=True)
        return np.stack([np.searchsorted(t, column) for t, column in pairs], axis=1) * 1.0

    def compose(self, x: Array, places: Array) -> Array:
        composed: Array = (x.reshape(-1, *places.shape) * places).sum(axis=1)
        return composed

    def fill(self, x: Array, value: Array | float) -> Array:
        return np.where(np.isnan(x), value, x)

    def root(self, x: Array) -> Array:
        # Correctly rounded on any machine, unlike a power.
        return np.copysign(np.sqrt(np.abs(x)), x)

    def add(self, x: Array, constant: Array | float) -> Array:
        return x + constant

    def subtract(self, x: Array, constant: Array | float) -> Array:
        return x - constant

    def multiply(self, x: Array, constant: Array | float) -> Array:
        return x * constant

    def divide(self, x: Array, constant: Array | float) -> Array:
        return x / constant

    def floor(self, x: Array) -> Array:
        return np.floor(x)

    def round(self, x: Array) -> Array:
        return np.rint(x)

    def clip(self, x: Array, low: float, high: float) -> Array:
        return np.clip(x, low, high)

    def shorten(self, x: Array, most: int) -> Array:
        length = np.maximum(np.ceil(np.sqrt((x * x).sum(axis=1, keepdims=True))), most)
        return np.trunc(x * most / length)

    def times(self, x: Array, y: Array) -> Array:
        return x * y

    def product(self, x: Array, matrix: Array) -> Array:
        with blas_for(2 * x.size * matrix.shape[1]):
            return (x.astype(np.float32) @ matrix).astype(np.float64)

    def integer_product(self, x: Array, matrix: Array) -> Array:
        with blas_for(2 * x.size * matrix.shape[1]):
            products: Array = x @ matrix
        return products

    def append(self, x: Array, value: float) -> Array:
        return np.pad(x, ((0, 0), (0, 1)), constant_values=value)

    def join(self, parts: Sequence[Array]) -> Array:
        return np.concatenate(parts, axis=1)
