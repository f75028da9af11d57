"""Sums that grow: gram, cross and counts in arrays that make room for new codes and classes.

What is under the accumulator: here sums are added, taken back and trimmed, whatever they
are sums of and whether or not they may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Codes, CodeSpace, Layout
from safle.encoders.features import ClassName, as_class_names
from safle.errors import InvariantError
from safle.statistics import counting, triangle
from safle.statistics.gram import Samples, require_gram
from safle.statistics.value import Margins, Statistics


class GrowingSums:
    """Sums of nothing, at first.

    Attributes
    ----------
    codes : int64, (seen,), ascending
    gram : packed triangle of seen codes and dense columns
    cross : int64, (dim, class_count)
    class_names, class_counts : ascending, and int64, (class_count,)
    """

    def __init__(self, layout: Layout) -> None:
        dense = layout.dense_dim
        self._layout = layout
        self.codes = np.empty(0, np.int64)
        require_gram(dense, 4)
        self.gram: NDArray[np.signedinteger[Any]] = np.zeros(triangle.packed_size(dense), np.int32)
        # No entry of the gram is larger: it bounds what the diagonal has grown to.
        self._largest = 0
        self.cross = np.zeros((dense, 0), np.int64)
        self.class_names: tuple[ClassName, ...] = ()
        self.class_counts = np.zeros(0, np.int64)
        self._shared = False

    @property
    def dim(self) -> int:
        return len(self.codes) + self._layout.dense_dim

    def widen(self, names: Iterable[ClassName], codes: NDArray[np.int64]) -> None:
        """Make room for classes and codes (ascending); what is there keeps its counts."""
        self._own()
        union = as_class_names([*{*self.class_names, *names}])
        if union != self.class_names:
            places = class_places(self.class_names, union)
            counts = np.zeros(len(union), np.int64)
            counts[places] = self.class_counts
            cross = np.zeros((self.dim, len(union)), np.int64)
            cross[:, places] = self.cross
            self.class_names, self.class_counts, self.cross = union, counts, cross
        wider = np.union1d(self.codes, codes)
        if len(wider) > len(self.codes):
            self._widen_codes(wider)

    def count(self, codes: Codes, names: Sequence[ClassName], labels: NDArray[np.int64]) -> None:
        """Add samples; ``labels`` are places in ``names``."""
        self.widen(names, counting.seen_codes(codes.symbols, self._layout))
        labels = class_places(names, self.class_names)[labels]
        self.class_counts += np.bincount(labels, minlength=len(self.class_counts))
        rows = counting.rows_of(codes.symbols, self._layout, self.codes)
        counting.add_cross(self.cross, rows, codes.dense, labels)
        self.make_room(counting.largest_square(codes, self._layout))
        counting.add_gram(self.gram, rows, codes.dense, self._offsets)

    def make_room(self, square: int) -> None:
        """Widen the integers before an entry could outgrow them."""
        self._largest += square
        if self._largest > triangle.NARROW and self.gram.dtype == np.int32:
            self.gram = self.gram.astype(np.int64)

    def add_gram(self, other: Statistics, sign: int = 1) -> None:
        """Add a contribution's gram, as it is held; ``sign`` -1 takes it back."""
        positions = self._positions(other.codes, self.codes)
        other.gram.add_to(self.gram, self.dim, positions, sign)

    def add_margins(self, other: Statistics, sign: int) -> None:
        """Add everything of ``other`` but its gram; ``sign`` -1 takes it back."""
        positions = self._positions(other.codes, self.codes)
        places = class_places(other.class_names, self.class_names)
        self.class_counts[places] += sign * other.class_counts
        self.cross[np.ix_(positions, places)] += sign * other.cross

    def check_not_negative(self) -> None:
        """Raise `InvariantError` if more was taken back than had been added."""
        least = [self.class_counts.min(initial=0), self.cross[: len(self.codes)].min(initial=0)]
        if not self._layout.dense_dim:
            least.append(self.gram.min(initial=0))
        if min(least) < 0:
            raise InvariantError("some counts are negative")
        # They are about to be dropped, and could not be put back.
        if self.cross[:, self.class_counts == 0].any():
            raise InvariantError("a class without samples has sums")

    def absent(self) -> set[ClassName]:
        """Classes that have no samples any more."""
        return {*np.array(self.class_names, object)[self.class_counts == 0].tolist()}

    def trim(self) -> None:
        """Drop codes and classes that do not occur; integers as narrow as they can be."""
        occurring = self.class_counts > 0
        if not occurring.all():
            names = np.array(self.class_names, object)[occurring].tolist()
            self.class_names, self.class_counts = tuple(names), self.class_counts[occurring]
            self.cross = np.ascontiguousarray(self.cross[:, occurring])
        diagonal = triangle.diagonal(self.gram, self.dim)[: len(self.codes)]
        if not diagonal.all():
            seen = np.flatnonzero(diagonal)
            rows = np.concatenate([seen, np.arange(len(self.codes), self.dim)])
            gram = np.empty(triangle.packed_size(len(rows)), self.gram.dtype)
            triangle.take(self.gram, self.dim, rows, gram)
            self.codes, self.gram, self.cross = self.codes[seen], gram, self.cross[rows]
        self.gram = self.narrow_gram()

    def margins(self, space: CodeSpace) -> Margins:
        """All but the gram, as a value."""
        return Margins(space, self.codes, self.cross, self.class_names, self.class_counts)

    def narrow_gram(self) -> NDArray[np.signedinteger[Any]]:
        """The gram in the narrowest integers that hold it."""
        return triangle.narrow(self.gram, self.dim)

    def share(self) -> None:
        """These arrays are somebody else's too: the next change is made to a copy."""
        self._shared = True

    def _own(self) -> None:
        if self._shared:
            self.gram, self.cross = self.gram.copy(), self.cross.copy()
            self.class_counts = self.class_counts.copy()
            self._shared = False

    def _widen_codes(self, codes: NDArray[np.int64]) -> None:
        dim = len(codes) + self._layout.dense_dim
        entries = triangle.packed_size(dim)
        require_gram(dim, self.gram.itemsize)
        positions = self._positions(self.codes, codes)
        gram: NDArray[np.signedinteger[Any]] = np.zeros(entries, self.gram.dtype)
        triangle.add_spread(gram, dim, self.gram, positions, 1)
        cross = np.zeros((dim, len(self.class_names)), np.int64)
        cross[positions] = self.cross
        self.codes, self.gram, self.cross = codes, gram, cross

    @property
    def _offsets(self) -> NDArray[np.int64]:
        """First row of each expert, and the end; int64, (experts + 1,)."""
        return np.searchsorted(self.codes, self._layout.bases).astype(np.int64)

    def _positions(self, codes: NDArray[np.int64], within: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of ``codes`` and of the dense columns in a gram over ``within``."""
        dense = len(within) + np.arange(self._layout.dense_dim)
        return np.concatenate([np.searchsorted(within, codes), dense]).astype(np.int64)


def class_places(names: Sequence[ClassName], within: Sequence[ClassName]) -> NDArray[np.int64]:
    """Where each of some names stands in others."""
    place = {name: at for at, name in enumerate(within)}
    return np.array([place[name] for name in names], np.int64)


def add_grams(parts: Sequence[Statistics]) -> NDArray[np.signedinteger[Any]]:
    """The packed sum of the grams of at least one value, whatever their classes; no codes."""
    total = GrowingSums(parts[0].layout)
    for part in parts:
        total.make_room(int(part.diagonal.max(initial=0)))
        total.add_gram(part)
    return total.narrow_gram()


class Pending:
    """Codes and labels in the order in which they came; as long as there are samples in it."""

    def __init__(self) -> None:
        self._parts: list[tuple[Codes, NDArray[Any]]] = []
        self._samples = 0

    def __len__(self) -> int:
        return self._samples

    def add(self, codes: Codes, labels: NDArray[Any]) -> None:
        """Put samples aside."""
        self._parts.append((codes, labels))
        self._samples += len(labels)

    def take(self) -> tuple[Codes, list[ClassName], NDArray[np.int64]]:
        """All as one batch: codes, class names, and labels as places in them; none is left."""
        gathered = self._gather()
        self._parts, self._samples = [], 0
        return gathered

    def as_few(self, space: CodeSpace) -> tuple[Margins, Samples]:
        """What follows from these samples alone, and they themselves in place of their gram."""
        layout, (codes, names, labels) = space.layout, self._gather()
        seen = counting.seen_codes(codes.symbols, layout)
        rows = counting.rows_of(codes.symbols, layout, seen)
        cross = np.zeros((len(seen) + layout.dense_dim, len(names)), np.int64)
        counting.add_cross(cross, rows, codes.dense, labels)
        counts = np.bincount(labels, minlength=len(names))
        classes = as_class_names(names)
        margins = Margins(space, seen, cross, classes, counts)
        return margins, Samples(rows, codes.dense, margins.offsets)

    def _gather(self) -> tuple[Codes, list[ClassName], NDArray[np.int64]]:
        codes = [part for part, _ in self._parts]
        symbols = np.concatenate([part.symbols for part in codes])
        dense = np.concatenate([part.dense for part in codes])
        labels = np.concatenate([labels for _, labels in self._parts])
        names, places = np.unique(labels, return_inverse=True)
        return Codes(symbols, dense), names.tolist(), places
