"""Statistics and histograms <-> vectors of free integers, each block with a modulus of its own.

Over the whole layout and all declared classes: which codes and classes occurred must not show.
What follows from the rest is left out (the first code of every expert, diagonals of codes,
constant columns), so that it holds by construction in whatever is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from safle._internal.memory import require
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.encoders.histogram import Grid, Histogram
from safle.errors import CountOverflow, InvariantError
from safle.federation.private import kernels
from safle.statistics import Accumulator, Statistics
from safle.statistics.kernels import triangle

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
    def most_samples(self) -> int:
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


def tiles(blocks: Iterable[Block]) -> Iterator[tuple[slice, int, int]]:
    """Every tile of a vector: where it is, its entries, and bytes of an entry."""
    at = 0
    for block in blocks:
        for first in range(0, block.size, kernels.TILE):
            size = min(kernels.TILE, block.size - first)
            yield slice(at, at + size * block.width), size, block.width
            at += size * block.width


def add_vectors(blocks: Sequence[Block], target: Bytes, other: Bytes, sign: int = 1) -> None:
    """``target += sign * other``, entry by entry, each modulo its block's."""
    carry = np.empty(kernels.TILE, np.uint8)
    step = kernels.add_tile if sign > 0 else kernels.subtract_tile
    for place, size, width in tiles(blocks):
        step(target[place], other[place], size, width, carry)


def pack(space: Space, value: Any) -> Bytes:
    """The vector of a value, uint8."""
    result = np.empty(_allocated(space), np.uint8)
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


def _allocated(space: Space) -> int:
    size = vector_bytes(space.blocks)
    require(
        size,
        purpose=f"a vector of {sum(block.size for block in space.blocks):,} integers",
        advice="use an encoder with fewer columns, or with smaller tables",
    )
    return size


def check_samples(found: int, most: int) -> None:
    """Refuse more samples than the modulus was chosen for."""
    if not 0 <= found <= most:
        raise CountOverflow(
            f"{found:,} samples; the round allows {most:,}, which its modulus was chosen for: "
            "declare a round for more"
        )


@dataclass(frozen=True)
class _Columns:
    """Free columns of like size: ``firsts`` is where the products of each with its own begin."""

    places: NDArray[np.int64]
    firsts: NDArray[np.int64]
    largest: int
    signed: bool

    def range(self, samples: int, largest: int = 1, signed: bool = False) -> tuple[int, int]:
        high = samples * self.largest * largest
        return (-high if self.signed or signed else 0), high


@dataclass(frozen=True)
class StatisticsSpace:
    """The free integers of statistics over a whole layout and all declared classes.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> sent = count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> space = StatisticsSpace(encoder.fingerprint, encoder.layout, ("ill", "well"), 1000)
    >>> unpack(space, pack(space, sent)) == sent
    True
    """

    fingerprint: str
    layout: Layout
    class_names: tuple[ClassName, ...]
    most_samples: int

    def __post_init__(self) -> None:
        if not 1 <= self.most_samples <= self.layout.most_samples:
            raise CountOverflow(
                f"at most {self.most_samples} samples; expected 1 to {self.layout.most_samples}"
            )

    @cached_property
    def _groups(self) -> list[_Columns]:
        """Codes first, then dense columns by bits and sign; constants follow from the counts."""
        layout, bases = self.layout, self.layout.bases
        experts = np.repeat(np.arange(layout.experts), layout.table_sizes)
        free = np.setdiff1d(np.arange(layout.code_count), bases[:-1])
        # Two codes of one expert never meet: products begin with the next expert's.
        next_expert = np.searchsorted(free, bases[experts[free] + 1])
        groups = [_Columns(free, next_expert, 1, False)] if len(free) else []
        limits = np.array(layout.dense_limits, np.int64).reshape(-1, 2)
        bits = np.frexp(np.abs(limits).max(axis=1))[1]
        for signed in (False, True):
            for length in range(1, 16):
                mask = ((limits[:, 0] < 0) == signed) & (bits == length)
                mask[[*layout.constants]] = False
                places = layout.code_count + np.flatnonzero(mask)
                if len(places):
                    firsts = np.arange(len(places))
                    groups.append(_Columns(places, firsts, (1 << length) - 1, signed))
        return groups

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        classes, most = len(self.class_names), self.most_samples
        # Wide enough for any number: more samples than declared are noticed, not wrapped.
        result = [Block("class counts", classes, 0, LARGEST_COUNT)]
        for group in self._groups:
            result.append(Block("class sums", len(group.places) * classes, *group.range(most)))
        for a, b in self._pairs():
            size = int((len(b.places) - self._firsts(a, b)).sum())
            result.append(Block("products", size, *a.range(most, b.largest, b.signed)))
        return tuple(result)

    def _pairs(self) -> Iterator[tuple[_Columns, _Columns]]:
        return combinations_with_replacement(self._groups, 2)

    @staticmethod
    def _firsts(a: _Columns, b: _Columns) -> NDArray[np.int64]:
        return a.firsts if a is b else np.zeros(len(a.places), np.int64)

    @staticmethod
    def _starts(a: _Columns, b: _Columns) -> NDArray[np.int64]:
        lengths = len(b.places) - StatisticsSpace._firsts(a, b)
        return np.cumsum(lengths) - lengths

    def arrays(self, value: Statistics) -> Iterator[NDArray[np.integer[Any]]]:
        s, layout = value, self.layout
        Accumulator(self, classes=self.class_names).require(s)
        check_samples(s.sample_count, self.most_samples)
        at = {name: place for place, name in enumerate(self.class_names)}
        if unknown := [name for name in s.class_names if name not in at]:
            raise InvariantError(f"class {unknown[0]!r} is not among those that the round declares")
        classes = np.array([at[name] for name in s.class_names], np.int64)
        rows = np.full(layout.embedding_dim, -1)
        rows[s.codes] = np.arange(len(s.codes))
        rows[layout.code_count :] = np.arange(len(s.codes), s.dim)
        counts = np.zeros(len(self.class_names), np.int64)
        counts[classes] = s.class_counts
        yield counts
        cross = np.zeros((layout.embedding_dim, len(self.class_names)), np.int64)
        cross[np.ix_(rows >= 0, classes)] = s.cross
        for group in self._groups:
            yield cross[group.places].reshape(-1)
        gram = s.multiply_out()
        for (a, b), block in zip(self._pairs(), self.blocks[1 + len(self._groups) :], strict=True):
            values = np.empty(block.size, gram.dtype)
            where = rows[a.places], rows[b.places], self._firsts(a, b), self._starts(a, b)
            kernels.gather(gram, s.dim, *where, values)
            yield values

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> Statistics:
        layout, total = self.layout, Accumulator(self)
        dim, counts = layout.embedding_dim, next(arrays)
        check_samples(sum(counts.tolist()), self.most_samples)
        cross = np.zeros((dim, len(counts)), np.int64)
        for group in self._groups:
            cross[group.places] = next(arrays).reshape(len(group.places), -1)
        constants = layout.code_count + np.array(layout.constants, np.int64)
        scales = np.array(layout.dense_scales, np.int64)[constants - layout.code_count]
        cross[constants] = scales[:, None] * counts
        for first, end in zip(layout.bases[:-1], layout.bases[1:], strict=True):
            cross[first] = counts - cross[first + 1 : end].sum(axis=0)
        gram = np.zeros(triangle.packed_size(dim), np.int64)
        for (a, b), values in zip(self._pairs(), arrays, strict=True):
            where = a.places, b.places, self._firsts(a, b), self._starts(a, b)
            kernels.scatter(gram, dim, *where, values)
        kernels.derive(gram, dim, layout.bases, constants, scales, cross.sum(axis=1))
        total.codes, total.gram, total.cross = np.arange(layout.code_count), gram, cross
        total.class_names, total.class_counts = self.class_names, counts
        statistics = total.snapshot()
        statistics.verify()
        return statistics


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
    most_samples: int

    @property
    def blocks(self) -> tuple[Block, ...]:
        cells = self.feature_dim * (self.grid.bins + 1)
        return Block("samples", 1, 0, LARGEST_COUNT), Block("counts", cells, 0, self.most_samples)

    def arrays(self, value: Histogram) -> Iterator[NDArray[np.integer[Any]]]:
        # Added to none, a histogram of another grid or width says so.
        none = Histogram(self.grid, np.zeros((self.feature_dim, self.grid.bins + 2), np.int64))
        counts = (none + value).counts
        check_samples(value.sample_count, self.most_samples)
        yield np.array([value.sample_count])
        yield counts[:, :-1].reshape(-1)

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> Histogram:
        samples, counts = arrays
        check_samples(int(samples[0]), self.most_samples)
        free = counts.reshape(self.feature_dim, -1)
        last = samples - free.sum(axis=1)
        return Histogram(self.grid, np.column_stack([free, last]))
