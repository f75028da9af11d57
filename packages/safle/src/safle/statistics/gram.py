"""Gram: the products of all columns, ``Phi'Phi``, behind one interface, however they are held.

- `Triangle`: as their packed upper triangle;
- `Samples`: as few samples, which are smaller than their gram;
- `safle.statistics.factor.Factor`: as the root that some columns of few samples determine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require
from safle.encoders.codes import Layout
from safle.errors import InvariantError
from safle.statistics import counting, triangle
from safle.statistics.invariants import verify_triangle
from safle.statistics.products import exact_product

if TYPE_CHECKING:
    from safle.statistics.value import Margins

Integers = NDArray[np.int64]
Packed = NDArray[np.signedinteger[Any]]
EVERY = slice(None)


class Gram(Protocol):
    """A symmetric matrix of integers, (dim, dim)."""

    @property
    def dim(self) -> int:
        """Rows: seen codes and dense columns."""

    @property
    def packed(self) -> Packed:
        """The upper triangle, int32 or int64, row by row; made once.

        `InvariantError` where what it is made of gives no integers.
        """

    @property
    def diagonal(self) -> Integers:
        """Int64, (dim,)."""

    def columns(self, chosen: Integers, rows: Integers | slice = EVERY) -> Integers:
        """Columns, int64, (dim, chosen); or ``rows`` of them alone."""

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """The product with ``right``, (dim, width), in float64."""

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        """Add it to rows ``positions``, ascending, of a packed triangle; ``sign`` -1 takes it off.

        `InvariantError` where it cannot be a gram: then ``target``, of ``dim`` rows, is as it was.
        """

    def verify(self, margins: Margins) -> None:
        """Raise `InvariantError` if no samples with these margins have it."""


@dataclass(frozen=True, eq=False)
class Triangle:
    """A gram as its packed upper triangle, int32 or int64.

    >>> Triangle(np.array([4, 2, 9], np.int32), 2).columns(np.array([1])).tolist()
    [[2], [9]]
    """

    packed: Packed
    dim: int

    def __post_init__(self) -> None:
        if self.packed.shape != (triangle.packed_size(self.dim),):
            raise InvariantError(
                f"shape: gram is {self.packed.dtype} {self.packed.shape}; there are {self.dim} rows"
            )
        self.packed.setflags(write=False)

    @cached_property
    def diagonal(self) -> Integers:
        return triangle.diagonal(self.packed, self.dim)

    def columns(self, chosen: Integers, rows: Integers | slice = EVERY) -> Integers:
        return triangle.gather_columns(self.packed, self.dim, chosen)[rows]

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        return triangle.multiply(self.packed, self.dim, right)

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        if len(positions) < dim:
            triangle.add_spread(target, dim, self.packed, positions, sign)
        elif sign > 0:
            target += self.packed
        else:
            target -= self.packed

    def verify(self, margins: Margins) -> None:
        verify_triangle(margins, self.packed, self.diagonal)


class Implied(ABC):
    """A gram that is multiplied out when its triangle is first asked for."""

    @property
    @abstractmethod
    def dim(self) -> int: ...

    @property
    @abstractmethod
    def diagonal(self) -> Integers: ...

    @abstractmethod
    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None: ...

    @cached_property
    def packed(self) -> Packed:
        """The upper triangle, made once: far larger than what it is made of."""
        size, dtype = triangle.packed_size(self.dim), triangle.entry_type(self.diagonal)
        require_gram(self.dim, np.dtype(dtype).itemsize)
        gram: Packed = np.zeros(size, dtype)
        self.add_to(gram, self.dim, np.arange(self.dim))
        gram.setflags(write=False)
        return gram


@dataclass(frozen=True, eq=False)
class Samples(Implied):
    """A gram as few samples, which are held until somebody needs their products.

    A gram of n samples has rank n at most: while n is far below the number of columns, the codes
    are the smaller of the two, and whatever is asked of the gram follows from them.

    Attributes
    ----------
    rows : int32, (experts, samples), the row of each expert's symbol among the seen codes
    dense : int16, (samples, dense_dim)
    offsets : int64, (experts + 1,), first row of each expert, then the number of seen codes
    """

    rows: NDArray[np.int32]
    dense: NDArray[np.int16]
    offsets: Integers

    @staticmethod
    def none(layout: Layout) -> Samples:
        """No samples: their gram is zero, and takes no memory."""
        return Samples(
            np.zeros((layout.experts, 0), np.int32),
            np.zeros((0, layout.dense_dim), np.int16),
            np.zeros(layout.experts + 1, np.int64),
        )

    def __len__(self) -> int:
        return len(self.dense)

    @property
    def dim(self) -> int:
        return int(self.offsets[-1]) + self.dense.shape[1]

    @cached_property
    def diagonal(self) -> Integers:
        counts = np.bincount(self.rows.reshape(-1), minlength=int(self.offsets[-1]))
        return np.concatenate([counts, np.square(self.dense.astype(np.int64)).sum(axis=0)])

    def _values(self) -> NDArray[np.float32]:
        """Phi, float32, (samples, dim): small integers, exactly."""
        phi = np.zeros((len(self), self.dim), np.float32)
        phi[np.arange(len(self)), self.rows] = 1.0
        phi[:, int(self.offsets[-1]) :] = self.dense
        return phi

    def columns(self, chosen: Integers, rows: Integers | slice = EVERY) -> Integers:
        phi = self._values()
        return exact_product(phi[:, rows], phi[:, chosen])

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        phi = self._values().astype(np.float64)
        return phi.T @ (phi @ right)

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        if not len(self):
            return
        if sign < 0:
            triangle.add_spread(target, dim, self.packed, positions, sign)
            return
        # All rows of an expert lie there between its first one here and the next expert's.
        offsets = np.append(positions[self.offsets[:-1]], dim - self.dense.shape[1])
        offsets[:1] = 0
        rows = positions[self.rows].astype(np.int32)
        counting.add_gram(target, rows, self.dense, offsets)

    def verify(self, margins: Margins) -> None:
        """Nothing is left to check: these are samples."""


def require_gram(dim: int, itemsize: int) -> None:
    """Refuse a triangle that this machine cannot hold."""
    require(
        triangle.packed_size(dim) * itemsize,
        purpose=f"a gram of {dim} rows",
        advice="use an encoder with fewer columns, or with smaller tables (group_size, buckets)",
    )
