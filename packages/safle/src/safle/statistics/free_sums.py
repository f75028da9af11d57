"""Free sums: the entries of statistics that do not follow from others, as a vector and back.

Of each expert, the first code is 1 minus its others; a constant column is known; the square of
a code is the code; and two codes of one expert never meet. The vector leaves all of that out, and
`FreeSums.restore` computes it again. Masks, noise and bytes use this one vector:

``class counts | class sums, column by column | products, row by row``

A product of two columns is in the row of the first of them. Where columns are counted by class,
`take_all` puts the products of each class behind it; if all columns are, the products are the sum
of those, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from safle.basics.memory import require_free_memory
from safle.encoders.codes import CodeSpace, Layout
from safle.errors import InvariantError
from safle.statistics import triangle
from safle.statistics.gram import Gram, Triangle
from safle.statistics.statistics import Margins, Statistics, Sums, class_places, without_absent
from safle.statistics.triangle import Integers, Packed
from safle.tables.checks import ClassName

MAX_CODE_PRODUCT = 1 << 46
"""Largest magnitude of a product of a code: 2^31 samples of 2^15. 2^16 of them fit 62 bits."""


@dataclass(frozen=True, eq=False)
class FreeSums:
    """The free sums over some codes of a layout, all its dense columns and some classes.

    ``codes``, int64, are ascending columns of codes; None for all of the layout.
    """

    layout: Layout
    class_count: int
    codes: Integers | None = None

    @staticmethod
    def of(margins: Margins) -> FreeSums:
        """The free sums over the codes and classes that occurred."""
        return FreeSums(margins.layout, len(margins.class_names), margins.codes)

    @cached_property
    def _codes(self) -> Integers:
        return np.arange(self.layout.code_count) if self.codes is None else self.codes

    @cached_property
    def offsets(self) -> Integers:
        """First row of each expert, then the number of codes, (experts + 1,)."""
        return np.searchsorted(self._codes, self.layout.bases).astype(np.int64)

    @property
    def dim(self) -> int:
        """Rows of the gram: codes and dense columns."""
        return len(self._codes) + self.layout.dense_dim

    @cached_property
    def constants(self) -> Integers:
        """Rows of the columns that always hold the same integer."""
        return len(self._codes) + self.layout.constants

    @property
    def _constant_values(self) -> Integers:
        return self.layout.low[self.layout.constants]

    @cached_property
    def rows(self) -> Integers:
        """Rows of the free columns, (free,), ascending."""
        free = np.ones(self.dim + 1, np.bool_)
        free[self.offsets[:-1]] = False
        free[self.constants] = False
        return np.flatnonzero(free[:-1])

    @property
    def scales(self) -> Integers:
        """Integers per real unit of each free column, (free,)."""
        return self._of_columns(self.layout.scales)

    @property
    def largest(self) -> Integers:
        """Largest magnitude of each free column, (free,)."""
        return self._of_columns(self.layout.largest)

    def _of_columns(self, dense: Integers) -> Integers:
        return np.concatenate([np.ones(len(self._codes), np.int64), dense])[self.rows]

    @cached_property
    def firsts(self) -> Integers:
        """For each free column, the first one whose product with it is free, (free,)."""
        # For a code, the next expert's first; for a dense column, itself.
        firsts = np.arange(len(self.rows))
        codes = int(np.searchsorted(self.rows, len(self._codes)))
        experts = np.searchsorted(self.offsets, self.rows[:codes], side="right")
        firsts[:codes] = np.searchsorted(self.rows, self.offsets[experts])
        return firsts

    @cached_property
    def starts(self) -> Integers:
        """Where the products of each free column begin, then their number, (free + 1,)."""
        lengths = len(self.rows) - self.firsts
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    @property
    def counts(self) -> slice:
        """Where the class counts are in the vector."""
        return slice(0, self.class_count)

    @property
    def cross(self) -> slice:
        """Where the class sums are in the vector."""
        return slice(self.class_count, self.class_count * (1 + len(self.rows)))

    @property
    def products(self) -> slice:
        """Where the products are in the vector."""
        return slice(self.cross.stop, self.cross.stop + int(self.starts[-1]))

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.products.stop

    def spread(self, weights: Integers) -> Integers:
        """A weight for each entry of the vector, (size,), from one for each free column.

        A class count weighs 1; a product weighs the product of its columns' weights.
        """
        parts = [np.ones(self.class_count, np.int64), np.repeat(weights, self.class_count)]
        firsts = self.firsts.tolist()
        parts += [weight * weights[first:] for weight, first in zip(weights, firsts, strict=True)]
        return np.concatenate(parts)

    @cached_property
    def squares(self) -> Integers:
        """Where the squares of columns are in the vector."""
        has_square = self.firsts == np.arange(len(self.rows))
        return self.products.start + self.starts[:-1][has_square]

    def take(self, statistics: Sums, names: Sequence[ClassName]) -> Integers:
        """The vector of statistics; zero for codes and classes that did not occur in them."""
        vector = np.zeros(self.size, np.int64)
        places = class_places(statistics.class_names, names)
        vector[self.counts][places] = statistics.class_counts
        rows = self._rows_in(statistics)
        occurring = np.flatnonzero(rows >= 0)
        cross = vector[self.cross].reshape(-1, self.class_count)
        cross[np.ix_(occurring, places)] = statistics.cross[rows[occurring]]
        vector[self.products] = self.take_products(statistics)
        return vector

    def take_products(self, statistics: Sums) -> Packed:
        """The free products alone, in the integers of the gram."""
        gram = statistics.gram.packed
        values = np.zeros(int(self.starts[-1]), gram.dtype)
        rows = self._rows_in(statistics)
        seen = rows >= 0
        # Which columns of the statistics are free; `seen` says which free columns occurred.
        free = np.zeros(statistics.dim, np.bool_)
        free[rows[seen]] = True
        for column, row in enumerate(rows.tolist()):
            first = int(self.firsts[column])
            if row < 0 or not seen[first:].any():
                continue
            least = int(rows[first:][seen[first:]][0])
            entries = gram[triangle.start(row, statistics.dim) :][least : statistics.dim]
            start, end = self.starts[column : column + 2]
            values[start:end][seen[first:]] = entries[free[least:]]
        return values

    def _rows_in(self, statistics: Sums) -> Integers:
        """Rows of the free columns in the gram of statistics; -1 for codes that did not occur."""
        rows = np.full(self.dim, -1)
        rows[np.searchsorted(self._codes, statistics.codes)] = np.arange(len(statistics.codes))
        rows[len(self._codes) :] = np.arange(len(statistics.codes), statistics.dim)
        return rows[self.rows]

    def value(self, fingerprint: str, names: Sequence[ClassName], vector: Integers) -> Statistics:
        """The canonical statistics of these classes: only what occurs; unverified."""
        return without_absent(self.restore(fingerprint, names, vector))

    def restore(self, fingerprint: str, names: Sequence[ClassName], vector: Integers) -> Statistics:
        """Restore all sums from a vector, without verifying that samples can have them."""
        space = CodeSpace(fingerprint, self.layout)
        counts = vector[self.counts]
        cross = self.restore_rows(vector[self.cross].reshape(-1, self.class_count), counts)
        gram = self.restore_gram(vector[self.products], cross.sum(axis=1))
        margins = Margins(space, self._codes, cross, tuple(names), counts)
        return margins.with_gram(Triangle(gram, self.dim))

    def restore_rows(self, free: Integers, totals: Integers) -> Integers:
        """All rows of sums, (dim, width), from the free rows and the totals, (width,).

        For class sums, totals are the class counts; for columns of the gram, the columns' totals.
        """
        rows = np.zeros((self.dim, len(totals)), np.int64)
        rows[self.rows] = free
        for first, end in pairwise(self.offsets.tolist()):
            if first < end:
                rows[first] = totals - rows[first + 1 : end].sum(axis=0)
        rows[self.constants] = self._constant_values[:, None] * totals
        return rows

    def restore_gram(self, products: Packed, totals: Integers) -> Integers:
        """The packed gram, int64, from its free products and the sums of all columns, (dim,)."""
        of_codes = products[: self.starts[np.searchsorted(self.rows, len(self._codes))]]
        if max(-int(of_codes.min(initial=0)), int(of_codes.max(initial=0))) > MAX_CODE_PRODUCT:
            raise InvariantError(f"a product of a code is larger than {MAX_CODE_PRODUCT}")
        dim = self.dim
        gram = np.zeros(triangle.packed_size(dim), np.int64)
        free = np.zeros(dim, np.bool_)
        free[self.rows] = True
        for column, row in enumerate(self.rows.tolist()):
            if self.firsts[column] < len(self.rows):
                least = int(self.rows[self.firsts[column]])
                entries = gram[triangle.start(row, dim) :][least:dim]
                entries[free[least:]] = products[self.starts[column] : self.starts[column + 1]]
        self._restore_codes(gram, totals)
        values = self._constant_values.tolist()
        for value, row in zip(values, self.constants.tolist(), strict=True):
            gram[triangle.start(np.arange(row), dim) + row] = value * totals[:row]
            at = triangle.start(row, dim)
            gram[at + row : at + dim] = value * totals[row:]
        return gram

    def _restore_codes(self, gram: Integers, totals: Integers) -> None:
        """Fill in each code's square, and the products of each expert's first code."""
        dim = self.dim
        codes = len(self._codes)
        for expert, (first, end) in enumerate(pairwise(self.offsets.tolist())):
            remainder = totals[end:].copy()
            later = self.offsets[expert + 1 : -1] - end
            for row in range(first + 1, end):
                entries = gram[triangle.start(row, dim) + end : triangle.start(row, dim) + dim]
                if len(later):
                    sums = np.add.reduceat(entries[: codes - end], later)
                    entries[later] = totals[row] - sums
                remainder -= entries
            if first < end:
                rows = np.arange(first, end)
                gram[triangle.start(rows, dim) + rows] = totals[first:end]
                at = triangle.start(first, dim)
                gram[at + end : at + dim] = remainder


def take_all(statistics: Sums, names: Sequence[ClassName]) -> Integers:
    """The vector of statistics over the whole layout and these classes, and those of each class."""
    layout = statistics.layout
    free = FreeSums(layout, len(names))
    vector = free.take(statistics, names)
    if layout.class_layout is None:
        return vector
    alone = FreeSums(layout.class_layout, 1)
    products = np.zeros((len(names), int(alone.starts[-1])), np.int64)
    places = class_places(statistics.class_names, names)
    for place, part in zip(places.tolist(), statistics.by_class, strict=True):
        products[place] = alone.take_products(part)
    whole = vector[: free.products.start] if layout.only_classes else vector
    return np.concatenate([whole, products.reshape(-1)])


def spread_all(layout: Layout, class_count: int, weights: Integers) -> Integers:
    """`FreeSums.spread` over the vector of `take_all`."""
    free = FreeSums(layout, class_count)
    whole = free.spread(weights)
    if layout.class_layout is None:
        return whole
    alone = FreeSums(layout.class_layout, 1)
    products = alone.spread(weights[: len(alone.rows)])[alone.products]
    if layout.only_classes:
        whole = whole[: free.products.start]
    return np.concatenate([whole, np.tile(products, class_count)])


def bound_all(layout: Layout, class_count: int) -> Integers:
    """The most that one sample adds to each entry of the vector of `take_all`; 0 for counts."""
    free = FreeSums(layout, class_count)
    size = free.size
    if layout.class_layout is not None:
        size += class_count * int(FreeSums(layout.class_layout, 1).starts[-1])
    require_free_memory(
        16 * size,
        purpose=f"a vector of {size:,} sums",
        advice="use an encoder with fewer columns, or with smaller tables",
    )
    bounds = spread_all(layout, class_count, np.maximum(free.largest, 1))
    bounds[free.counts] = 0
    return bounds


def restore_all(space: CodeSpace, names: Sequence[ClassName], vector: Integers) -> Statistics:
    """The canonical statistics of the vector of `take_all`: only what occurs; unverified."""
    layout = space.layout
    free = FreeSums(layout, len(names))
    if layout.class_layout is None:
        return free.value(space.fingerprint, names, vector)
    alone = FreeSums(layout.class_layout, 1)
    counts = vector[free.counts]
    cross = free.restore_rows(vector[free.cross].reshape(-1, len(names)), counts)
    margins = Margins(space, np.empty(0, np.int64), cross, tuple(names), counts)
    start = free.products.start if layout.only_classes else free.products.stop
    parts = []
    for place, products in enumerate(vector[start:].reshape(len(names), -1)):
        part = margins.of_class(place)
        packed = alone.restore_gram(products, part.totals)
        parts.append(part.with_gram(Triangle.narrow(packed, alone.dim)))
    if layout.only_classes:
        gram = sum_grams([part.gram for part in parts], margins.dim)
    else:
        gram = Triangle(free.restore_gram(vector[free.products], margins.totals), margins.dim)
    return without_absent(margins.with_gram(gram, parts))


def sum_grams(grams: Sequence[Gram], dim: int) -> Triangle:
    """The sum of grams of equal columns, in the narrowest integers."""
    total = np.zeros(triangle.packed_size(dim), np.int64)
    for gram in grams:
        gram.add_to(total, dim, np.arange(dim))
    return Triangle.narrow(total, dim)
