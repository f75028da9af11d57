"""Vectors of named integers, each block with a modulus of its own: what masks are added to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require
from safle.encoders.histogram import Grid, Histogram
from safle.errors import CountOverflow, InvariantError
from safle.private import kernels

Bytes = NDArray[np.uint8]
LARGEST_COUNT = (1 << 63) - 1


@dataclass(frozen=True)
class Block:
    """Named integers within [low, high], for as many samples as a round allows.

    >>> Block("pairs", 100, 0, 225 * 74_565).width
    3
    """

    name: str
    size: int
    low: int
    high: int

    @property
    def width(self) -> int:
        """Bytes of an entry: the modulus is 2^(8 width)."""
        return max(1, ((self.high - self.low).bit_length() + 7) // 8)


class Space(Protocol):
    """What a round adds up: blocks of integers, to and from the value that they stand for."""

    @property
    def most_total_samples(self) -> int:
        """Of all clients together."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """In the order of the vector."""

    def arrays(self, value: Any) -> Iterator[NDArray[np.integer[Any]]]:
        """The integers of a client's value, block by block; a `SafleError` for another round's."""

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> Any:
        """The value of a sum, verified; a `SafleError` if it cannot be one."""


def vector_bytes(blocks: Iterable[Block]) -> int:
    """Bytes of a vector."""
    return sum(block.size * block.width for block in blocks)


def new_vector(blocks: Iterable[Block]) -> Bytes:
    """Zeros, uint8; refused before it is made if this machine cannot hold it."""
    size = vector_bytes(blocks)
    require(
        size,
        purpose="a vector of a private round",
        advice="use an encoder with fewer columns, or with smaller tables",
    )
    return np.zeros(size, np.uint8)


def tiles(blocks: Iterable[Block]) -> Iterator[tuple[slice, int, int]]:
    """A vector, some tiles of a block at a time: where, entries, and bytes of an entry."""
    at = 0
    for block in blocks:
        for first in range(0, block.size, kernels.RUN):
            size = min(kernels.RUN, block.size - first)
            yield slice(at, at + size * block.width), size, block.width
            at += size * block.width


def add_vectors(blocks: Sequence[Block], target: Bytes, other: Bytes, sign: int = 1) -> None:
    """``target += sign * other``, entry by entry, each modulo its block's."""
    carry = np.empty(kernels.TILE, np.uint8)
    for place, size, width in tiles(blocks):
        kernels.add_tiles(target[place], other[place], size, width, carry, sign < 0)


def pack(space: Space, value: Any) -> Bytes:
    """The vector of a value, uint8."""
    result = new_vector(space.blocks)
    at = 0
    for block, values in zip(space.blocks, space.arrays(value), strict=True):
        size = block.size * block.width
        kernels.write_planes(values, block.width, result[at : at + size])
        at += size
    return result


def unpack(space: Space, vector: Bytes) -> Any:
    """The value of a vector that nothing masks any more."""
    return space.value(_unpacked(space.blocks, vector))


def _unpacked(blocks: Iterable[Block], vector: Bytes) -> Iterator[NDArray[np.int64]]:
    at = 0
    for block in blocks:
        size = block.size * block.width
        values = np.empty(block.size, np.int64)
        kernels.read_planes(vector[at : at + size], block.width, block.low, values)
        if block.size and values.max() > block.high:
            raise InvariantError(
                f"the opened sum has {values.max()} among its {block.name}; at most {block.high} "
                "is possible: a client or a keyholder did not keep to the round; begin a new one"
            )
        yield values
        at += size


def check_samples(found: int, most: int) -> None:
    """Refuse more samples than the modulus was chosen for."""
    if not 0 <= found <= most:
        raise CountOverflow(
            f"{found:,} samples; the round allows {most:,}, which its modulus was chosen for: "
            "declare a round for more"
        )


@dataclass(frozen=True)
class HistogramSpace:
    """The counts of histograms on one grid; the last bin of a feature follows from the samples.

    >>> grid = Grid(0, 4, bins=4)
    >>> sent = Histogram.of(np.array([[0.5], [2.5]]), grid)
    >>> space = HistogramSpace(grid, 1, 1000)
    >>> unpack(space, pack(space, sent)) == sent
    True
    """

    grid: Grid
    feature_dim: int
    most_total_samples: int
    names: tuple[str, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        cells = self.feature_dim * (self.grid.bins + 1)
        return Block("samples", 1, 0, LARGEST_COUNT), Block(
            "counts", cells, 0, self.most_total_samples
        )

    def arrays(self, value: Histogram) -> Iterator[NDArray[np.integer[Any]]]:
        # Added to none, a histogram of another grid or width says so.
        cells = np.zeros((self.feature_dim, self.grid.bins + 2), np.int64)
        none = Histogram(self.grid, cells, self.names)
        counts = (none + value).counts
        check_samples(value.sample_count, self.most_total_samples)
        yield np.array([value.sample_count])
        yield counts[:, :-1].reshape(-1)

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> Histogram:
        samples, counts = arrays
        check_samples(int(samples[0]), self.most_total_samples)
        free = counts.reshape(self.feature_dim, -1)
        last = samples - free.sum(axis=1)
        return Histogram(self.grid, np.column_stack([free, last]), self.names)
