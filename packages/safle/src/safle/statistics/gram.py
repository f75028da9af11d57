"""Gram: the products of all columns, ``Phi'Phi``, behind one interface, however they are held.

- `Triangle`: as their packed upper triangle;
- `Samples`: as few samples, which are smaller than their gram;
- `safle.statistics.low_rank.LowRank`: as the root that some columns of few samples determine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from safle._native.cores import blas_for
from safle.basics.memory import require_free_memory
from safle.errors import InvariantError
from safle.statistics import counting, triangle
from safle.statistics.invariants import verify_triangle
from safle.statistics.triangle import Integers, Packed

if TYPE_CHECKING:
    from safle.statistics.statistics import Margins

ALL_ROWS = slice(None)
FLOAT32_EXACT = 1 << 24


class Gram(Protocol):
    """A symmetric matrix of integers, (dim, dim)."""

    @property
    def dim(self) -> int:
        """Rows: seen codes and dense columns."""

    @property
    def packed(self) -> Packed:
        """The upper triangle, int32 or int64, row by row; made once.

        `InvariantError` if the form in which it is held gives no integers.
        """

    @property
    def diagonal(self) -> Integers:
        """Int64, (dim,)."""

    def columns(self, chosen: Integers, rows: Integers | slice = ALL_ROWS) -> Integers:
        """Columns, int64, (dim, chosen); or only ``rows`` of them."""

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """The product with ``right``, (dim, width), in float64."""

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        """Add it to rows ``positions``, ascending, of a packed triangle; ``sign`` -1 takes it off.

        `InvariantError` if this is not a gram; ``target``, of ``dim`` rows, then stays as it was.
        """

    def verify(self, margins: Margins) -> None:
        """Raise `InvariantError` if no samples with these margins have this gram.

        Whether its entries are integers is left to `require_integers`.
        """

    def require_integers(self) -> None:
        """Raise `InvariantError` for an entry that is impossible or not an integer."""


def multiply_out(gram: Gram) -> Packed:
    """The packed triangle of a gram that is held in a smaller form."""
    entries = triangle.entry_type(gram.diagonal)
    require_gram(gram.dim, np.dtype(entries).itemsize)
    packed: Packed = np.zeros(triangle.packed_size(gram.dim), entries)
    gram.add_to(packed, gram.dim, np.arange(gram.dim))
    packed.setflags(write=False)
    return packed


def require_gram(dim: int, itemsize: int) -> None:
    """Refuse a triangle that this machine cannot hold."""
    require_free_memory(
        triangle.packed_size(dim) * itemsize,
        purpose=f"a gram of {dim} rows",
        advice="use an encoder with fewer columns, or with smaller tables (group_size, buckets)",
    )


@dataclass(frozen=True, eq=False)
class Triangle:
    """A gram as its packed upper triangle, int32 or int64."""

    packed: Packed
    dim: int

    def __post_init__(self) -> None:
        if self.packed.shape != (triangle.packed_size(self.dim),):
            raise InvariantError(
                f"shape: gram has shape {self.packed.shape}; it is the triangle of {self.dim} rows"
            )
        self.packed.setflags(write=False)

    @staticmethod
    def narrow(packed: Packed, dim: int) -> Triangle:
        """In the narrowest integers for the diagonal; `InvariantError` if an entry does not fit."""
        dtype = np.dtype(triangle.entry_type(triangle.diagonal(packed, dim)))
        if packed.dtype != dtype:
            # In Python's integers: the least int64 has no absolute value in int64.
            largest = max(int(packed.max(initial=0)), -int(packed.min(initial=0)))
            if largest > np.iinfo(dtype).max:
                raise InvariantError("an entry is larger than the squares of its columns allow")
        return Triangle(packed.astype(dtype, copy=False), dim)

    @cached_property
    def diagonal(self) -> Integers:
        return triangle.diagonal(self.packed, self.dim)

    def columns(self, chosen: Integers, rows: Integers | slice = ALL_ROWS) -> Integers:
        return triangle.gather_columns(self.packed, self.dim, chosen)[rows]

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        return triangle.multiply(self.packed, self.dim, right)

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        triangle.add_spread(target, dim, self.packed, positions, sign)

    def verify(self, margins: Margins) -> None:
        verify_triangle(margins, self.packed, self.diagonal)

    def require_integers(self) -> None:
        """Check nothing: they are held as integers."""


@dataclass(frozen=True, eq=False)
class Samples:
    """A gram as few samples, which are held until somebody needs their products.

    A gram of n samples has rank n at most: while n is far below the number of columns, the codes
    are smaller than the gram, and all methods compute from them.

    Attributes
    ----------
    rows : int32, (experts, samples), the row of each expert's symbol among the seen codes
    dense : int16, (samples, dense_dim)
    offsets : int64, (experts + 1,), first row of each expert, then the number of seen codes
    """

    rows: NDArray[np.int32]
    dense: NDArray[np.int16]
    offsets: Integers
    packed = cached_property(multiply_out)

    @property
    def dim(self) -> int:
        return int(self.offsets[-1]) + self.dense.shape[1]

    @cached_property
    def diagonal(self) -> Integers:
        counts = np.bincount(self.rows.reshape(-1), minlength=int(self.offsets[-1]))
        squares = np.einsum("sf,sf->f", self.dense, self.dense, dtype=np.int64)
        return np.concatenate([counts, squares])

    @property
    def _values(self) -> NDArray[np.float32]:
        """Phi, float32, (samples, dim): small integers, exactly."""
        phi = np.zeros((len(self.dense), self.dim), np.float32)
        phi[np.arange(len(phi)), self.rows] = 1.0
        phi[:, int(self.offsets[-1]) :] = self.dense
        return phi

    def columns(self, chosen: Integers, rows: Integers | slice = ALL_ROWS) -> Integers:
        phi = self._values
        left = phi[:, rows]
        right = phi[:, chosen]
        largest = float(np.abs(left).max(initial=0)) * float(np.abs(right).max(initial=0))
        if largest * len(phi) >= FLOAT32_EXACT:
            left = left.astype(np.float64)
            right = right.astype(np.float64)
        with blas_for(2 * left.size * right.shape[1]):
            return (left.T @ right).astype(np.int64)

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        phi = self._values.astype(np.float64)
        with blas_for(4 * phi.size * right.shape[1]):
            return phi.T @ (phi @ right)

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        if sign < 0:
            triangle.add_spread(target, dim, self.packed, positions, sign)
        elif len(self.dense):
            # In `target`, an expert's rows lie between its first position and the next expert's.
            offsets = np.append(positions[self.offsets[:-1]], dim - self.dense.shape[1])
            offsets[:1] = 0
            rows = positions.astype(np.int32)[self.rows]
            counting.add_gram(target, rows, self.dense, offsets)

    def verify(self, margins: Margins) -> None:
        """Check nothing: samples always have a valid gram."""

    def require_integers(self) -> None:
        """Check nothing: products of integers are integers."""
