"""Statistics <-> vectors of free integers, over the whole layout and all declared classes.

Which codes and classes occurred must not show. What follows from the rest is left out (the first
code of every expert, diagonals of codes, constant columns, products that the classes' own add up
to), so that it holds by construction in whatever is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.encoders.made import require_same
from safle.errors import CountOverflow, InvariantError
from safle.private import kernels
from safle.private.vector import LARGEST_COUNT, Block, check_samples
from safle.statistics import Statistics
from safle.statistics.kernels import triangle
from safle.statistics.value import Margins


@dataclass(frozen=True)
class _Columns:
    """Free columns of like size: ``firsts`` is where the products of each with its own begin."""

    places: NDArray[np.int64]
    firsts: NDArray[np.int64]
    largest: int
    signed: bool
    by_class: bool = False

    def range(self, samples: int, largest: int = 1, signed: bool = False) -> tuple[int, int]:
        high = samples * self.largest * largest
        return (-high if self.signed or signed else 0), high


@dataclass(frozen=True)
class _Products:
    """The free products of two groups of columns: a row of them for each column of the first."""

    rows: _Columns
    columns: _Columns

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        same = self.rows is self.columns
        return self.rows.firsts if same else np.zeros(len(self.rows.places), np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each row begins, and the number of all."""
        lengths = len(self.columns.places) - self.firsts
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    @property
    def chosen(self) -> NDArray[np.bool_]:
        """Which products are free, (rows, columns)."""
        return np.arange(len(self.columns.places)) >= self.firsts[:, None]

    def block(self, samples: int) -> Block:
        low, high = self.rows.range(samples, self.columns.largest, self.columns.signed)
        return Block("products", int(self.starts[-1]), low, high)

    def gather(self, gram: NDArray[Any], dim: int, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Out of a packed gram whose row of column c is ``rows[c]``, or -1."""
        values = np.empty(int(self.starts[-1]), gram.dtype)
        chosen = rows[self.rows.places], rows[self.columns.places]
        kernels.gather(gram, dim, *chosen, self.firsts, self.starts, values)
        return values

    def scatter(self, gram: NDArray[np.int64], dim: int, values: NDArray[np.int64]) -> None:
        chosen = self.rows.places, self.columns.places
        kernels.scatter(gram, dim, *chosen, self.firsts, self.starts, values)


@dataclass(frozen=True)
class StatisticsSpace:
    """The free integers of statistics over a whole layout and all declared classes.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private.vector import pack, unpack
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> sent = count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> space = StatisticsSpace(encoder.fingerprint, encoder.layout, ("ill", "well"), 1000)
    >>> unpack(space, pack(space, sent)) == sent
    True
    """

    fingerprint: str
    layout: Layout
    class_names: tuple[ClassName, ...]
    most_total_samples: int

    def __post_init__(self) -> None:
        if not 1 <= self.most_total_samples <= self.layout.most_samples:
            raise CountOverflow(
                f"at most {self.most_total_samples} samples; expected 1 to "
                f"{self.layout.most_samples}"
            )

    @cached_property
    def _groups(self) -> list[_Columns]:
        return _free_columns(self.layout)

    @cached_property
    def _products(self) -> list[_Products]:
        """All but those that the classes' own add up to."""
        pairs = combinations_with_replacement(self._groups, 2)
        return [_Products(a, b) for a, b in pairs if not (a.by_class and b.by_class)]

    @cached_property
    def _class_products(self) -> list[_Products]:
        """Those of one class, in the columns that are counted by class."""
        layout = self.layout.class_layout
        groups = _free_columns(layout) if layout else []
        return [_Products(a, b) for a, b in combinations_with_replacement(groups, 2)]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        classes, most = len(self.class_names), self.most_total_samples
        # Wide enough for any number: more samples than declared are noticed, not wrapped.
        result = [Block("class counts", classes, 0, LARGEST_COUNT)]
        for group in self._groups:
            result.append(Block("class sums", len(group.places) * classes, *group.range(most)))
        products = [*self._products, *classes * self._class_products]
        return (*result, *(product.block(most) for product in products))

    def arrays(self, value: Statistics) -> Iterator[NDArray[np.integer[Any]]]:
        s, names = value, self.class_names
        require_same(self, s)
        check_samples(s.sample_count, self.most_total_samples)
        if unknown := sorted({*s.class_names} - {*names}, key=str):
            raise InvariantError(f"class {unknown[0]!r} is not among those that the round declares")
        yield from self._arrays(s)

    def _arrays(self, s: Statistics) -> Iterator[NDArray[np.integer[Any]]]:
        layout, names = self.layout, self.class_names
        classes = np.array([names.index(name) for name in s.class_names], np.int64)
        rows = np.full(layout.embedding_dim, -1)
        rows[s.codes] = np.arange(len(s.codes))
        rows[layout.code_count :] = np.arange(len(s.codes), s.dim)
        counts = np.zeros(len(names), np.int64)
        counts[classes] = s.class_counts
        yield counts
        cross = np.zeros((layout.embedding_dim, len(names)), np.int64)
        cross[np.ix_(rows >= 0, classes)] = s.cross
        for group in self._groups:
            yield cross[group.places].reshape(-1)
        for products in self._products:
            yield products.gather(s.multiply_out(), s.dim, rows)
        parts = dict(zip(s.class_names, s.by_class, strict=False))
        for name, products in product(names, self._class_products):
            if name in parts:
                own = np.arange(parts[name].dim)
                yield products.gather(parts[name].multiply_out(), parts[name].dim, own)
            else:
                yield np.zeros(int(products.starts[-1]), np.int64)

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> Statistics:
        layout, counts = self.layout, next(arrays)
        check_samples(sum(counts.tolist()), self.most_total_samples)
        cross = np.zeros((layout.embedding_dim, len(counts)), np.int64)
        for group in self._groups:
            cross[group.places] = next(arrays).reshape(len(group.places), -1)
        _fill_cross(layout, cross, counts)
        gram = np.zeros(triangle.packed_size(layout.embedding_dim), np.int64)
        for products in self._products:
            products.scatter(gram, layout.embedding_dim, next(arrays))
        whole = Margins(
            self.fingerprint, layout, np.arange(layout.code_count), cross, self.class_names, counts
        )
        parts = [part for at in range(len(counts)) for part in self._class_part(whole, at, arrays)]
        block = layout.code_count + np.arange(*layout.by_class)
        for part in parts:
            triangle.add_spread(gram, whole.dim, part.gram, block, 1)
        _derive(layout, gram, whole.totals)
        statistics = _canonical(whole, gram, parts)
        statistics.verify()
        return statistics

    def _class_part(
        self, whole: Margins, at: int, arrays: Iterator[NDArray[np.int64]]
    ) -> Iterator[Statistics]:
        """The statistics of one class alone, where columns are counted by class."""
        if self.layout.class_layout is None:
            return
        margins = whole.of_class(at)
        gram = np.zeros(triangle.packed_size(margins.dim), np.int64)
        for products in self._class_products:
            products.scatter(gram, margins.dim, next(arrays))
        _derive(margins.layout, gram, margins.totals)
        yield _canonical(margins, gram)


def _free_columns(layout: Layout) -> list[_Columns]:
    """Codes first, then dense columns by bits and sign; constants follow from the counts."""
    bases = layout.bases
    experts = np.repeat(np.arange(layout.experts), layout.table_sizes)
    free = np.setdiff1d(np.arange(layout.code_count), bases[:-1])
    # Two codes of one expert never meet: products begin with the next expert's.
    next_expert = np.searchsorted(free, bases[experts[free] + 1])
    groups = [_Columns(free, next_expert, 1, False)] if len(free) else []
    limits = np.array(layout.dense_limits, np.int64).reshape(-1, 2)
    bits, signs = np.frexp(np.abs(limits).max(axis=1))[1], limits[:, 0] < 0
    inside = np.zeros(layout.dense_dim, bool)
    inside[slice(*layout.by_class)] = True
    for by_class, signed, length in product((False, True), (False, True), range(1, 16)):
        mask = (inside == by_class) & (signs == signed) & (bits == length)
        mask[[*layout.constants]] = False
        places = layout.code_count + np.flatnonzero(mask)
        if len(places):
            firsts, largest = np.arange(len(places)), (1 << length) - 1
            groups.append(_Columns(places, firsts, largest, signed, by_class))
    return groups


def _constants(layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns that always hold their scale, and these scales."""
    chosen = np.array(layout.constants, np.int64)
    return layout.code_count + chosen, np.array(layout.dense_scales, np.int64)[chosen]


def _fill_cross(layout: Layout, cross: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    columns, scales = _constants(layout)
    cross[columns] = scales[:, None] * counts
    for first, end in pairwise(layout.bases):
        cross[first] = counts - cross[first + 1 : end].sum(axis=0)


def _derive(layout: Layout, gram: NDArray[np.int64], totals: NDArray[np.int64]) -> None:
    kernels.derive(gram, layout.embedding_dim, layout.bases, *_constants(layout), totals)


def _canonical(
    whole: Margins, gram: NDArray[np.int64], parts: Sequence[Statistics] = ()
) -> Statistics:
    """The value without the codes and classes that do not occur."""
    occurring = np.flatnonzero(whole.class_counts)
    chosen = occurring.tolist()
    dense = np.arange(len(whole.codes), whole.dim)
    rows = np.concatenate([np.flatnonzero(whole.totals[: len(whole.codes)]), dense])
    kind = triangle.entry_type(triangle.diagonal(gram, whole.dim)[rows])
    seen = np.empty(triangle.packed_size(len(rows)), kind)
    triangle.take(gram, whole.dim, rows, seen)
    margins = Margins(
        whole.fingerprint,
        whole.layout,
        whole.codes[rows[: -len(dense) or None]],
        np.ascontiguousarray(whole.cross[np.ix_(rows, occurring)]),
        tuple(whole.class_names[at] for at in chosen),
        whole.class_counts[occurring],
    )
    return margins.with_gram(seen, tuple(parts[at] for at in chosen) if parts else ())
