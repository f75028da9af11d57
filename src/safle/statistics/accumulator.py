"""The accumulator: the one mutable thing, statistics under construction.

Samples, other statistics and (through `safle.wire`) bytes go in, `subtract` takes a
contribution back, and `snapshot` gives what has been gathered as an immutable value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle._internal.arguments import refuse_type, require_type
from safle._internal.memory import require
from safle._internal.texts import name_some
from safle.encoders import Encoder
from safle.encoders.codes import Codes, Layout
from safle.encoders.features import ClassName, as_class_names, as_labels, as_weights
from safle.encoders.made import Declared, Made, require_same
from safle.errors import CountOverflow, InvalidInput, InvariantError
from safle.statistics import counting
from safle.statistics.factor import Factor
from safle.statistics.invariants import Bounds
from safle.statistics.kernels import triangle
from safle.statistics.pending import Pending
from safle.statistics.value import Margins, Statistics

GATHERED = 8_192
"""Samples gathered before they are counted: a code first seen later makes the gram move."""


class Accumulator:
    """Statistics under construction, in memory that depends on the number of columns only.

    Parameters
    ----------
    made : the encoder; or statistics (or anything else with a fingerprint and a layout) whose
        like will be added, where no samples are
    classes : the only names that labels may have

    Examples
    --------
    >>> from safle import Accumulator, DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> total = Accumulator(encoder)
    >>> total.add_samples([[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> total.add(total.snapshot())
    >>> total.snapshot().sample_count
    4
    """

    def __init__(self, made: Made, *, classes: Sequence[ClassName] | None = None) -> None:
        if not isinstance(getattr(made, "layout", None), Layout):
            refuse_type("made", made, "an encoder, or statistics of one")
        self.fingerprint, self.layout = made.fingerprint, made.layout
        self._encoder = made if isinstance(made, Encoder) else None
        own: Sequence[ClassName] = () if self._encoder is None else self._encoder.classes
        self._declared = as_class_names(own if classes is None else classes)
        if own and not {*self._declared} <= {*own}:
            raise InvalidInput(
                f"classes {name_some(self._declared)}; the encoder is for {name_some(own)} only"
            )
        self._all_declared = bool(own) or classes is not None
        self._found: set[ClassName] = set()
        self._pending = Pending()
        dense = self.layout.dense_dim
        self.codes = np.empty(0, np.int64)
        self.gram: NDArray[np.signedinteger[Any]] = np.zeros(triangle.packed_size(dense), np.int32)
        # No entry of the gram is larger: it bounds what the diagonal has grown to.
        self._largest = 0
        self.cross = np.zeros((dense, 0), np.int64)
        self.class_names: tuple[ClassName, ...] = ()
        self.class_counts = np.zeros(0, np.int64)
        self._by_class: dict[ClassName, Accumulator] = {}
        self._shared = False

    def __repr__(self) -> str:
        return (
            f"<Accumulator: {self.sample_count:,} samples, {len(self.class_names)} classes, "
            f"{self.dim:,} columns, encoder {self.fingerprint[:12]}…>"
        )

    @property
    def dim(self) -> int:
        return len(self.codes) + self.layout.dense_dim

    @property
    def sample_count(self) -> int:
        return int(self.class_counts.sum()) + len(self._pending)

    def add_samples(
        self, features: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Count a batch, (samples, feature_dim) and (samples,); all of it or nothing.

        A sample is counted as often as its weight says, a whole number; once without weights.
        """
        if self._encoder is None:
            raise InvalidInput("samples need an encoder: start from Accumulator(encoder)")
        checked = self._encoder.check(features)
        names = as_labels(labels, len(checked))
        times = None
        if weights is not None:
            times = as_weights(weights, len(checked))
            counted = times > 0
            checked, names, times = checked[counted], names[counted], times[counted]
        found = self._check_names(names)
        self.reserve(len(checked) if times is None else int(times.sum()))
        self._make_classes(found)
        self._found |= found
        for first in range(0, len(checked), GATHERED):
            part = slice(first, first + GATHERED)
            codes = self._encoder.encode_checked(checked[part])
            if times is None:
                self._gather(codes, names[part], GATHERED)
            else:
                self._gather_repeated(codes, names[part], times[part])

    def add(self, other: Statistics) -> None:
        """Add a contribution."""
        require_type("contribution", other, Margins)
        other.require_exact()
        self.require(other)
        self._count_pending()
        self.reserve(other.sample_count)
        self.widen(other.class_names, other.codes)
        self._make_room(int(other.diagonal.max(initial=0)))
        # The gram first: it is the one that may be refused.
        self._add_gram(other)
        self._add_margins(other, 1)
        for name, part in zip(other.class_names, other.by_class, strict=False):
            self._by_class[name].add(part)

    def subtract(self, other: Statistics) -> None:
        """Take a contribution back; `InvariantError` if it cannot have been part."""
        other.require_exact()
        self.require(other)
        self._count_pending()
        known = set(other.class_names) <= set(self.class_names)
        if not known or not np.isin(other.codes, self.codes).all():
            raise InvariantError(
                "the contribution holds codes or classes that the sum has never seen; "
                "it was not part of it"
            )
        self._combine(other, -1)
        try:
            self._check_not_negative()
            self._as_value().verify()
        except InvariantError as error:
            # What no longer occurred has been dropped: it comes back with the contribution.
            self._combine(other, 1)
            raise InvariantError(
                f"without the contribution, {error}; it was not part of the sum"
            ) from error

    def snapshot(self) -> Statistics:
        """What has been gathered so far; the accumulator can go on."""
        if self._pending and not self.class_names:
            margins, few = self._pending.as_few(self)
            if 2 * margins.sample_count <= margins.dim:
                return margins.with_gram(few, self._class_values(margins.class_names))
        self._count_pending()
        return self._as_value()

    def require(self, made: Made) -> None:
        """Raise `EncoderMismatch` unless ``made`` comes from the same encoder."""
        require_same(self, made)

    def reserve(self, samples: int) -> None:
        """Refuse ``samples`` more if a count could then overflow."""
        most = self.layout.most_samples
        if self.sample_count + samples > most:
            raise CountOverflow(
                f"{self.sample_count} + {samples} samples exceed the {most} that this gram's "
                "integers can count: split the federation"
            )

    def widen(self, names: Iterable[ClassName], codes: NDArray[np.int64]) -> None:
        """Make room for classes and codes (ascending); what is there keeps its counts."""
        self._own()
        union = as_class_names([*{*self.class_names, *names}])
        if union != self.class_names:
            places = self._class_places(self.class_names, union)
            counts = np.zeros(len(union), np.int64)
            counts[places] = self.class_counts
            cross = np.zeros((self.dim, len(union)), np.int64)
            cross[:, places] = self.cross
            self.class_names, self.class_counts, self.cross = union, counts, cross
            self._make_classes(union)
        wider = np.union1d(self.codes, codes)
        if len(wider) > len(self.codes):
            self._widen_codes(wider)

    def _make_classes(self, names: Iterable[ClassName]) -> None:
        """Where columns are counted by class, begin with those that are new."""
        block = self.layout.class_layout
        new = {*names} - {*self._by_class} if block else set()
        if block is None or not new:
            return
        require(
            len(new) * triangle.packed_size(block.dense_dim) * self.gram.itemsize,
            purpose=f"grams of {block.dense_dim} rows for each of {len(new)} classes",
            advice="count fewer classes, fewer features, or not by class (by_class)",
        )
        for name in new:
            self._by_class[name] = Accumulator(Declared(self.fingerprint, block))

    def _make_room(self, square: int) -> None:
        """Widen the integers before an entry could outgrow them."""
        self._largest += square
        if self._largest > triangle.NARROW and self.gram.dtype == np.int32:
            self.gram = self.gram.astype(np.int64)

    def _widen_codes(self, codes: NDArray[np.int64]) -> None:
        dim = len(codes) + self.layout.dense_dim
        entries = triangle.packed_size(dim)
        require(
            entries * self.gram.itemsize,
            purpose=f"a gram of {dim} rows ({len(codes)} codes seen)",
            advice="use an encoder with smaller tables (group_size, buckets)",
        )
        positions = self._positions(self.codes, codes)
        gram: NDArray[np.signedinteger[Any]] = np.zeros(entries, self.gram.dtype)
        triangle.add_spread(gram, dim, self.gram, positions, 1)
        cross = np.zeros((dim, len(self.class_names)), np.int64)
        cross[positions] = self.cross
        self.codes, self.gram, self.cross = codes, gram, cross

    def _positions(self, codes: NDArray[np.int64], within: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of ``codes`` and of the dense columns in a gram over ``within``."""
        dense = len(within) + np.arange(self.layout.dense_dim)
        return np.concatenate([np.searchsorted(within, codes), dense]).astype(np.int64)

    @staticmethod
    def _class_places(names: Sequence[ClassName], within: Sequence[ClassName]) -> NDArray[np.int64]:
        place = {name: at for at, name in enumerate(within)}
        return np.array([place[name] for name in names], np.int64)

    def _add_gram(self, other: Statistics) -> None:
        """Add a contribution's gram; what holds few samples is not multiplied out for it."""
        positions = self._positions(other.codes, self.codes)
        if "gram" in vars(other):
            self._spread_gram(other, 1)
        elif isinstance(other.few, Factor):
            other.few.add_to(self.gram, self.dim, positions, Bounds.of(other))
        elif other.few is not None:
            offsets = np.searchsorted(self.codes, self.layout.bases).astype(np.int64)
            other.few.add_to(self.gram, positions[: len(other.codes)], offsets)

    def _spread_gram(self, other: Statistics, sign: int) -> None:
        positions = self._positions(other.codes, self.codes)
        if len(positions) != self.dim:
            triangle.add_spread(self.gram, self.dim, other.gram, positions, sign)
        elif sign > 0:
            self.gram += other.gram
        else:
            self.gram -= other.gram

    def _combine(self, other: Statistics, sign: int) -> None:
        """Add or take back everything of ``other``, unchecked."""
        self._count_pending()
        self.widen(other.class_names, other.codes)
        self._spread_gram(other, sign)
        self._add_margins(other, sign)
        for name, part in zip(other.class_names, other.by_class, strict=False):
            self._by_class[name]._combine(part, sign)

    def _add_margins(self, other: Statistics, sign: int) -> None:
        """Add everything of ``other`` but its gram; ``sign`` -1 takes it back."""
        positions = self._positions(other.codes, self.codes)
        places = self._class_places(other.class_names, self.class_names)
        self.class_counts[places] += sign * other.class_counts
        self.cross[np.ix_(positions, places)] += sign * other.cross

    def _check_not_negative(self) -> None:
        least = [self.class_counts.min(initial=0), self.cross[: len(self.codes)].min(initial=0)]
        if not self.layout.dense_dim:
            least.append(self.gram.min(initial=0))
        if min(least) < 0:
            raise InvariantError("some counts are negative")
        # They are about to be dropped, and could not be put back.
        gone = {*np.array(self.class_names, object)[self.class_counts == 0].tolist()}
        if self.cross[:, self.class_counts == 0].any() or any(
            part.gram.any() for name, part in self._by_class.items() if name in gone
        ):
            raise InvariantError("a class without samples has sums")

    def _check_names(self, labels: NDArray[Any]) -> set[ClassName]:
        found = set(labels.tolist())
        if self._all_declared and not found <= set(self._declared):
            unknown = sorted(found - set(self._declared), key=str)
            raise InvalidInput(
                f"labels contain {name_some(unknown)}, which are not among the declared classes "
                f"{name_some(self._declared)}"
            )
        as_class_names([*{*self.class_names, *self._found, *found}])
        return found

    def _gather(self, codes: Codes, labels: NDArray[Any], most: int) -> None:
        """Put samples aside until there are ``most`` to count at once; each class its own."""
        self._pending.add(codes, labels)
        block = self.layout.class_layout
        if block is not None:
            dense = codes.dense[:, slice(*self.layout.by_class)]
            for name in np.unique(labels):
                own = labels == name
                share = Codes(codes.symbols[own][:, :0], dense[own])
                # As many as are no larger than their gram.
                self._by_class[name.item()]._gather(share, labels[own], block.dense_dim)
        if len(self._pending) >= most:
            self._count_pending()

    def _gather_repeated(
        self, codes: Codes, labels: NDArray[Any], times: NDArray[np.int64]
    ) -> None:
        """Gather each sample several times, as if the table had repeated it."""
        ends = np.cumsum(times)
        for first in range(0, int(ends[-1]), GATHERED):
            wanted = np.arange(first, min(first + GATHERED, int(ends[-1])))
            rows = np.searchsorted(ends, wanted, side="right")
            self._gather(Codes(codes.symbols[rows], codes.dense[rows]), labels[rows], GATHERED)

    def _count_pending(self) -> None:
        if not self._pending:
            return
        codes, names, labels = self._pending.take()
        self.widen(names, counting.seen_codes(codes.symbols, self.layout))
        labels = self._class_places(names, self.class_names)[labels]
        self.class_counts += np.bincount(labels, minlength=len(self.class_counts))
        rows = counting.rows_of(codes.symbols, self.layout, self.codes)
        counting.add_cross(self.cross, rows, codes.dense, labels)
        self._make_room(counting.largest_square(codes, self.layout))
        offsets = np.searchsorted(self.codes, self.layout.bases).astype(np.int64)
        counting.add_gram(self.gram, rows, codes.dense, offsets)

    def _class_values(self, names: Sequence[ClassName]) -> tuple[Statistics, ...]:
        chosen = names if self.layout.class_layout else ()
        return tuple(self._by_class[name].snapshot() for name in chosen)

    def _as_value(self) -> Statistics:
        """The total as a value; codes and classes that do not occur are dropped."""
        occurring = self.class_counts > 0
        if not occurring.all():
            names = np.array(self.class_names, object)[occurring].tolist()
            self.class_names, self.class_counts = tuple(names), self.class_counts[occurring]
            self.cross = np.ascontiguousarray(self.cross[:, occurring])
            self._by_class = {n: self._by_class[n] for n in names if n in self._by_class}
        diagonal = triangle.diagonal(self.gram, self.dim)[: len(self.codes)]
        if not diagonal.all():
            seen = np.flatnonzero(diagonal)
            rows = np.concatenate([seen, np.arange(len(self.codes), self.dim)])
            gram = np.empty(triangle.packed_size(len(rows)), self.gram.dtype)
            triangle.take(self.gram, self.dim, rows, gram)
            self.codes, self.gram, self.cross = self.codes[seen], gram, self.cross[rows]
        dtype = triangle.entry_type(triangle.diagonal(self.gram, self.dim))
        self.gram = self.gram.astype(dtype, copy=False)
        # The value is not ours to change: the next change is made to a copy.
        self._shared = True
        sums = self.codes, self.cross, self.class_names, self.class_counts, self.gram
        by_class = self._class_values(self.class_names)
        return Statistics(self.fingerprint, self.layout, *sums, by_class)

    def _own(self) -> None:
        """Before a change: a copy of what a snapshot holds too."""
        if self._shared:
            self.gram, self.cross = self.gram.copy(), self.cross.copy()
            self.class_counts = self.class_counts.copy()
            self._shared = False


def add_up(parts: Sequence[Statistics]) -> NDArray[np.signedinteger[Any]]:
    """The packed sum of the grams of at least one value, whatever their classes; no codes."""
    total = Accumulator(parts[0])
    for part in parts:
        total._make_room(int(part.diagonal.max(initial=0)))
        total._add_gram(part)
    dtype = triangle.entry_type(triangle.diagonal(total.gram, total.dim))
    return total.gram.astype(dtype, copy=False)
