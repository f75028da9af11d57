"""Free sums: what of statistics the algebra leaves free, as one vector, and back.

Of each expert, the first code is 1 minus its others; a constant column is its scale; the square of
a code is the code; two codes of one expert never meet; and the products of columns that are
counted by class are the sum of those of the classes. All of that is left out, and worked out again
by `FreeSums.restore`. Masks, noise and bytes use this one vector:

``class counts | class sums, column by column | products, row by row | those of each class``

A product of two columns stands in the row of the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from safle.encoders.codes import CodeSpace, Layout
from safle.encoders.features import ClassName
from safle.errors import InvariantError
from safle.statistics import triangle
from safle.statistics.gram import Triangle
from safle.statistics.triangle import Integers, Packed
from safle.statistics.value import Margins, Statistics, Sums, class_places, without_absent

MOST = 1 << 46
"""Magnitude of a product of a code: 2^31 samples of 2^15. Sums of 2^16 of them fit 62 bits."""


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
        """The free sums over what occurred."""
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
        """Rows of the columns that always hold their scale."""
        return len(self._codes) + np.array(self.layout.constants, np.int64)

    @property
    def _constant_scales(self) -> Integers:
        return np.array(self.layout.dense_scales, np.int64)[[*self.layout.constants]]

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
        return self._of_columns(self.layout.dense_scales)

    @property
    def largest(self) -> Integers:
        """Largest magnitude of each free column, (free,)."""
        return self._of_columns([max(-low, high) for low, high in self.layout.dense_limits])

    def _of_columns(self, dense: Sequence[int]) -> Integers:
        codes = np.ones(len(self._codes), np.int64)
        return np.concatenate([codes, np.array(dense, np.int64)])[self.rows]

    @cached_property
    def firsts(self) -> Integers:
        """Where, among the free columns, those begin whose products with each are free, (free,)."""
        # A code's begin with the next expert; a dense column's with itself, or after all that are
        # counted by class.
        firsts = np.arange(len(self.rows))
        codes = int(np.searchsorted(self.rows, len(self._codes)))
        experts = np.searchsorted(self.offsets, self.rows[:codes], side="right")
        firsts[:codes] = np.searchsorted(self.rows, self.offsets[experts])
        block = self.block
        if len(block):
            inside = slice(*np.searchsorted(self.rows, [block[0], block[-1] + 1]))
            firsts[inside] = inside.stop
        return firsts

    @cached_property
    def starts(self) -> Integers:
        """Where the products of each free column begin, and the number of all, (free + 1,)."""
        lengths = len(self.rows) - self.firsts
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    @property
    def block(self) -> Integers:
        """Rows of the columns that are counted by class."""
        return len(self._codes) + np.arange(*self.layout.by_class)

    @cached_property
    def by_class(self) -> FreeSums | None:
        """The free sums of one class alone, where some columns are counted by class."""
        layout = self.layout.class_layout
        return FreeSums(layout, 1) if layout else None

    @property
    def counts(self) -> slice:
        """Where the class counts stand in the vector."""
        return slice(0, self.class_count)

    @property
    def cross(self) -> slice:
        """Where the class sums stand in the vector."""
        return slice(self.class_count, self.class_count * (1 + len(self.rows)))

    @property
    def products(self) -> slice:
        """Where the products stand in the vector."""
        return slice(self.cross.stop, self.cross.stop + int(self.starts[-1]))

    @property
    def size(self) -> int:
        """Length of the vector."""
        own = int(self.by_class.starts[-1]) if self.by_class else 0
        return self.products.stop + self.class_count * own

    def spread(self, weights: Integers) -> Integers:
        """A weight for each entry of the vector from one for each column, (size,).

        That of a class count is 1, that of a product the product of its columns'.
        """
        parts = [np.ones(self.class_count, np.int64), np.repeat(weights, self.class_count)]
        parts += [weights[at] * weights[first:] for at, first in enumerate(self.firsts.tolist())]
        if self.by_class:
            dense = weights[np.isin(self.rows, self.block)]
            own = self.by_class.spread(dense)[self.by_class.products]
            parts += [own] * self.class_count
        return np.concatenate(parts)

    @cached_property
    def squares(self) -> Integers:
        """Where the squares of columns stand in the vector, but for those of single classes."""
        own = self.firsts == np.arange(len(self.rows))
        return self.products.start + self.starts[:-1][own]

    def take(self, statistics: Sums, names: Sequence[ClassName]) -> Integers:
        """The vector of statistics of (some of) these codes and classes; zeros of the others."""
        vector = np.zeros(self.size, np.int64)
        places = class_places(statistics.class_names, names)
        vector[self.counts][places] = statistics.class_counts
        rows = self._rows_in(statistics)
        occurring = np.flatnonzero(rows >= 0)
        cross = vector[self.cross].reshape(-1, self.class_count)
        cross[np.ix_(occurring, places)] = statistics.cross[rows[occurring]]
        vector[self.products] = self.take_products(statistics)
        if self.by_class:
            own = vector[self.products.stop :].reshape(self.class_count, -1)
            for at, part in zip(places.tolist(), statistics.by_class, strict=True):
                own[at] = self.by_class.take_products(part)
        return vector

    def take_products(self, statistics: Sums) -> Packed:
        """The free products alone, in the integers of the gram."""
        gram = statistics.gram.packed
        values = np.zeros(int(self.starts[-1]), gram.dtype)
        rows = self._rows_in(statistics)
        seen = rows >= 0
        # Free columns among those of the statistics, and what of a row of the vector they fill.
        free = np.zeros(statistics.dim, np.bool_)
        free[rows[seen]] = True
        for at, row in enumerate(rows.tolist()):
            first = int(self.firsts[at])
            if row < 0 or not seen[first:].any():
                continue
            least = int(rows[first:][seen[first:]][0])
            entries = gram[triangle.start(row, statistics.dim) :][least : statistics.dim]
            values[self.starts[at] : self.starts[at + 1]][seen[first:]] = entries[free[least:]]
        return values

    def _rows_in(self, statistics: Sums) -> Integers:
        """Rows of the free columns in the gram of statistics; -1 of codes that did not occur."""
        rows = np.full(self.dim, -1)
        rows[np.searchsorted(self._codes, statistics.codes)] = np.arange(len(statistics.codes))
        rows[len(self._codes) :] = np.arange(len(statistics.codes), statistics.dim)
        return rows[self.rows]

    def value(self, fingerprint: str, names: Sequence[ClassName], vector: Integers) -> Statistics:
        """The statistics of these classes, unverified; without what does not occur: canonical."""
        return without_absent(self.restore(fingerprint, names, vector))

    def restore(self, fingerprint: str, names: Sequence[ClassName], vector: Integers) -> Statistics:
        """All sums that follow from a vector; whether samples can have them is not checked."""
        space, counts = CodeSpace(fingerprint, self.layout), vector[self.counts]
        cross = self.restore_rows(vector[self.cross].reshape(-1, self.class_count), counts)
        grams: list[Integers] = []
        if self.by_class:
            own = vector[self.products.stop :].reshape(self.class_count, -1)
            totals = cross[self.block].T
            grams = [self.by_class.restore_gram(*sums) for sums in zip(own, totals, strict=True)]
        gram = self.restore_gram(vector[self.products], cross.sum(axis=1), grams)
        margins = Margins(space, self._codes, cross, tuple(names), counts)
        class_grams = [Triangle.narrow(own, len(self.block)) for own in grams]
        return margins.with_gram(Triangle(gram, self.dim), class_grams)

    def restore_rows(self, free: Integers, totals: Integers) -> Integers:
        """All rows of sums, (dim, width), from the free ones and what each column sums to alone.

        Of class sums these are the class counts; of columns of the gram, the columns' totals.
        """
        rows = np.zeros((self.dim, len(totals)), np.int64)
        rows[self.rows] = free
        for first, end in pairwise(self.offsets.tolist()):
            if first < end:
                rows[first] = totals - rows[first + 1 : end].sum(axis=0)
        rows[self.constants] = self._constant_scales[:, None] * totals
        return rows

    def restore_gram(
        self, products: Packed, totals: Integers, class_grams: Sequence[Packed] = ()
    ) -> Integers:
        """The packed gram, int64, from its free products and the sums of all columns, (dim,)."""
        of_codes = products[: self.starts[np.searchsorted(self.rows, len(self._codes))]]
        if max(-int(of_codes.min(initial=0)), int(of_codes.max(initial=0))) > MOST:
            raise InvariantError(f"a product of a code is larger than {MOST}")
        dim, scales = self.dim, self._constant_scales
        gram = np.zeros(triangle.packed_size(dim), np.int64)
        free = np.zeros(dim, np.bool_)
        free[self.rows] = True
        for at, row in enumerate(self.rows.tolist()):
            if self.firsts[at] < len(self.rows):
                least = int(self.rows[self.firsts[at]])
                entries = gram[triangle.start(row, dim) :][least:dim]
                entries[free[least:]] = products[self.starts[at] : self.starts[at + 1]]
        for own in class_grams:
            triangle.add_spread(gram, dim, own, self.block, 1)
        self._restore_codes(gram, totals)
        for scale, row in zip(scales.tolist(), self.constants.tolist(), strict=True):
            gram[triangle.start(np.arange(row), dim) + row] = scale * totals[:row]
            at = triangle.start(row, dim)
            gram[at + row : at + dim] = scale * totals[row:]
        return gram

    def _restore_codes(self, gram: Integers, totals: Integers) -> None:
        """Each code's square, and the products of each expert's first code."""
        dim, codes = self.dim, len(self._codes)
        for expert, (first, end) in enumerate(pairwise(self.offsets.tolist())):
            left = totals[end:].copy()
            later = self.offsets[expert + 1 : -1] - end
            for row in range(first + 1, end):
                entries = gram[triangle.start(row, dim) + end : triangle.start(row, dim) + dim]
                if len(later):
                    sums = np.add.reduceat(entries[: codes - end], later)
                    entries[later] = totals[row] - sums
                left -= entries
            if first < end:
                rows = np.arange(first, end)
                gram[triangle.start(rows, dim) + rows] = totals[first:end]
                at = triangle.start(first, dim)
                gram[at + end : at + dim] = left
