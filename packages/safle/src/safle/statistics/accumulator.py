"""The accumulator: the one mutable thing, statistics under construction.

It takes in samples, other statistics and (through `safle.wire`) bytes; `subtract` takes a
contribution back; `snapshot` returns the sum so far as an immutable value. `count` and
`sum_statistics` do this in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.memory import require_free_memory
from safle.basics.texts import name_some, require_type
from safle.encoders.base import Encoder
from safle.encoders.codes import Codes, CodeSpace
from safle.errors import CountOverflow, InvalidInput, InvariantError
from safle.statistics import triangle
from safle.statistics.counting import largest_square
from safle.statistics.gram import Triangle, require_gram
from safle.statistics.statistics import (
    ONLY_EXACT,
    Margins,
    Statistics,
    class_places,
    count_codes,
    without_absent,
)
from safle.statistics.triangle import Integers, Packed
from safle.tables.checks import ClassName, as_class_names, as_labels
from safle.tables.findings import Findings

MAX_WAITING_SAMPLES = 8_192
"""Samples that wait to be counted at once: a batch with a new code copies the gram."""


class Accumulator:
    """Statistics under construction, in memory that depends on the number of columns only.

    Parameters
    ----------
    encoder : encodes the samples; to add statistics only, a code space is enough
    classes : the only names that labels may have
    allow_outside : count samples although more than a tenth of a feature's values lie outside the
        range or the levels that the encoder expects

    Examples
    --------
    >>> from safle import Accumulator, LinearEncoder, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=2))
    >>> total = Accumulator(encoder)
    >>> total.add_samples([[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> total.add(total.snapshot())
    >>> total.snapshot().sample_count
    4
    """

    def __init__(
        self,
        encoder: Encoder | CodeSpace,
        *,
        classes: Sequence[ClassName] | None = None,
        allow_outside: bool = False,
    ) -> None:
        require_type("encoder", encoder, Encoder, CodeSpace)
        self.space = encoder.space if isinstance(encoder, Encoder) else encoder
        self.layout = self.space.layout
        self._encoder = encoder if isinstance(encoder, Encoder) else None
        self._outside = None if self._encoder is None else Findings(self._encoder.contract)
        self._allow_outside = allow_outside
        known: Sequence[ClassName] = () if self._encoder is None else self._encoder.contract.classes
        declared = as_class_names(known if classes is None else classes)
        if known and not {*declared} <= {*known}:
            raise InvalidInput(
                f"classes are {name_some(declared)}; the encoder is for {name_some(known)} only"
            )
        self._declared_classes = None if classes is None and not known else declared
        self._waiting: list[tuple[Codes, NDArray[Any]]] = []
        dense = self.layout.dense_dim
        require_gram(dense, 4)
        self._codes = np.empty(0, np.int64)
        self._gram: Packed = np.zeros(triangle.packed_size(dense), np.int32)
        # An upper bound of the diagonal, and so of every entry of the gram.
        self._diagonal_bound = 0
        self._cross = np.zeros((dense, 0), np.int64)
        self._names: tuple[ClassName, ...] = ()
        self._counts = np.zeros(0, np.int64)
        self._by_class: dict[ClassName, Accumulator] = {}

    def __repr__(self) -> str:
        return (
            f"<Accumulator: {self.sample_count:,} samples, {len(self._names)} classes, "
            f"{self._dim:,} columns, encoder {self.space.fingerprint[:12]}…>"
        )

    @property
    def sample_count(self) -> int:
        return int(self._counts.sum()) + sum(len(codes) for codes, _ in self._waiting)

    @property
    def _dim(self) -> int:
        return len(self._codes) + self.layout.dense_dim

    def add_samples(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Count features, (samples, feature_dim), and labels, (samples,); all of them or none."""
        if self._encoder is None or self._outside is None:
            raise InvalidInput("samples need an encoder: start from Accumulator(encoder)")
        checked = self._encoder.contract.check(features)
        names = as_labels(labels, len(checked))
        classes = set(names.tolist())
        self._check_declared(classes)
        self._check_sample_count(len(checked))
        self._make_room(classes, self._codes)
        self._outside.add(checked)
        for first in range(0, len(checked), MAX_WAITING_SAMPLES):
            part = slice(first, first + MAX_WAITING_SAMPLES)
            self._gather(self._encoder.encode_checked(checked[part]), names[part])

    def add(self, other: Statistics) -> None:
        """Add a contribution."""
        require_type("contribution", other, Statistics, advice=ONLY_EXACT)
        self.space.check_same(other.space)
        self._check_sample_count(other.sample_count)
        self._combine(other)

    def subtract(self, other: Statistics) -> None:
        """Take a contribution back; `InvariantError` if it cannot have been part of the sum."""
        require_type("contribution", other, Statistics, advice=ONLY_EXACT)
        self.space.check_same(other.space)
        self._count_waiting()
        known = {*other.class_names} <= {*self._names}
        if not known or not np.isin(other.codes, self._codes).all():
            raise InvariantError(
                "the contribution holds codes or classes that the sum has never seen; it was not "
                "part of the sum"
            )
        self._combine(other, -1)
        try:
            self._check_not_negative()
            self._as_value().verify()
        except InvariantError as error:
            self._combine(other)
            raise InvariantError(
                f"without the contribution, {error}; it was not part of the sum"
            ) from error

    def snapshot(self) -> Statistics:
        """The statistics so far; more can be added afterwards.

        `InvalidInput` if too many values lie outside what the encoder expects: see
        `safle.tables.findings`.
        """
        if self._outside is not None:
            self._outside.judge(allowed=self._allow_outside)
        if self._waiting and not self._counts.any():
            waiting = self._waiting_value()
            if 2 * waiting.sample_count <= waiting.dim:
                return waiting.with_gram(waiting.gram, self._class_parts(waiting.class_names))
        self._count_waiting()
        return self._as_value()

    def _check_sample_count(self, samples: int) -> None:
        """Refuse ``samples`` more samples if a count could then overflow."""
        most = self.layout.most_samples
        if self.sample_count + samples > most:
            raise CountOverflow(
                f"{self.sample_count} + {samples} samples exceed the {most} that this gram's "
                "integers can count: split the federation"
            )

    def _check_declared(self, classes: set[ClassName]) -> None:
        if self._declared_classes is not None and not classes <= {*self._declared_classes}:
            unknown = sorted(classes - {*self._declared_classes}, key=str)
            raise InvalidInput(
                f"labels contain {name_some(unknown)}, which are not among the declared classes "
                f"{name_some(self._declared_classes)}"
            )

    def _gather(self, codes: Codes, labels: NDArray[Any], most: int = MAX_WAITING_SAMPLES) -> None:
        """Let samples wait until ``most`` can be counted at once; those of each class, too."""
        self._waiting.append((codes, labels))
        block = self.layout.class_layout
        if block is not None:
            dense = codes.dense[:, : block.dim]
            for name in np.unique(labels):
                inside = labels == name
                part = Codes(codes.symbols[inside, :0], dense[inside])
                # As many samples as columns take no more memory than their gram.
                self._by_class[name.item()]._gather(part, labels[inside], block.dim)
        if sum(len(codes) for codes, _ in self._waiting) >= most:
            self._count_waiting()

    def _waiting_value(self) -> Statistics:
        """Join the waiting samples into one block, and return its statistics."""
        symbols = np.concatenate([codes.symbols for codes, _ in self._waiting])
        dense = np.concatenate([codes.dense for codes, _ in self._waiting])
        labels = np.concatenate([labels for _, labels in self._waiting])
        self._waiting = [(Codes(symbols, dense), labels)]
        return count_codes(self.space, Codes(symbols, dense), labels)

    def _count_waiting(self) -> None:
        if self._waiting:
            batch = self._waiting_value()
            codes, _ = self._waiting[0]
            self._waiting = []
            self._combine(batch, largest=largest_square(codes.dense, self.layout))

    def _combine(self, other: Statistics, sign: int = 1, largest: int | None = None) -> None:
        """Add ``other``, or take it back (``sign`` -1); ``largest`` bounds its diagonal."""
        self._count_waiting()
        self._make_room(other.class_names, other.codes)
        if largest is None:
            largest = int(other.diagonal.max(initial=0)) if sign > 0 else 0
        self._widen_integers(largest)
        positions = self._positions(other.codes, self._codes)
        # The gram comes first: it is the only part that may be refused.
        other.gram.add_to(self._gram, self._dim, positions, sign)
        places = class_places(other.class_names, self._names)
        self._counts[places] += sign * other.class_counts
        self._cross[np.ix_(positions, places)] += sign * other.cross
        for name, part in zip(other.class_names, other.by_class, strict=False):
            self._by_class[name]._combine(part, sign)

    def _widen_integers(self, square: int) -> None:
        """Widen the integers before an entry could outgrow them; a shared gram is copied."""
        self._diagonal_bound += square
        dtype = np.int64 if self._diagonal_bound > triangle.MAX_INT32 else self._gram.dtype
        self._gram = self._gram.astype(dtype, copy=not self._gram.flags.writeable)

    def _make_room(self, names: Iterable[ClassName], codes: Integers) -> None:
        """Make room for classes and codes (ascending); known ones keep their counts."""
        union = as_class_names([*{*self._names, *names}])
        if union != self._names:
            self._start_classes(union)
            places = class_places(self._names, union)
            counts = np.zeros(len(union), np.int64)
            counts[places] = self._counts
            cross = np.zeros((self._dim, len(union)), np.int64)
            cross[:, places] = self._cross
            self._names = union
            self._counts = counts
            self._cross = cross
        wider = np.union1d(self._codes, codes)
        if len(wider) == len(self._codes):
            return
        dim = len(wider) + self.layout.dense_dim
        require_gram(dim, self._gram.itemsize)
        positions = self._positions(self._codes, wider)
        gram: Packed = np.zeros(triangle.packed_size(dim), self._gram.dtype)
        triangle.add_spread(gram, dim, self._gram, positions, 1)
        cross = np.zeros((dim, len(self._names)), np.int64)
        cross[positions] = self._cross
        self._codes = wider
        self._gram = gram
        self._cross = cross

    def _positions(self, codes: Integers, within: Integers) -> Integers:
        """Rows of ``codes`` and of the dense columns in a gram over ``within``."""
        dense = len(within) + np.arange(self.layout.dense_dim)
        return np.concatenate([np.searchsorted(within, codes), dense]).astype(np.int64)

    def _start_classes(self, names: Iterable[ClassName]) -> None:
        """Start an accumulator for every new class if the layout counts columns by class."""
        block = self.layout.class_layout
        new = {*names} - {*self._by_class}
        if block is None or not new:
            return
        require_free_memory(
            len(new) * triangle.packed_size(block.dim) * self._gram.itemsize,
            purpose=f"grams of {block.dim} rows for each of {len(new)} classes",
            advice="count fewer classes, fewer features, or not by class (by_class)",
        )
        for name in new:
            self._by_class[name] = Accumulator(CodeSpace(self.space.fingerprint, block))

    def _check_not_negative(self) -> None:
        """Raise `InvariantError` if more was taken back than had been added."""
        least = [self._counts.min(initial=0), self._cross[: len(self._codes)].min(initial=0)]
        if not self.layout.dense_dim:
            least.append(self._gram.min(initial=0))
        if min(least) < 0:
            raise InvariantError("some counts are negative")
        absent = self._counts == 0
        names = compress(self._names, absent) if self.layout.class_layout else ()
        grams = [self._by_class[name]._gram for name in names]
        if self._cross[:, absent].any() or any(gram.any() for gram in grams):
            raise InvariantError("a class without samples has sums")

    def _as_value(self) -> Statistics:
        """The total as a value; codes and classes that do not occur are dropped."""
        margins = Margins(
            self.space, self._codes, self._cross.copy(), self._names, self._counts.copy()
        )
        parts = self._class_parts(self._names)
        return without_absent(margins.with_gram(Triangle(self._gram, self._dim), parts))

    def _class_parts(self, names: Sequence[ClassName]) -> list[Statistics]:
        counted = names if self.layout.class_layout else ()
        return [self._by_class[name].snapshot() for name in counted]


def count(
    encoder: Encoder,
    features: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[ClassName] | None = None,
    allow_outside: bool = False,
) -> Statistics:
    """Statistics of one array of features, (samples, feature_dim), and its labels.

    `InvalidInput` if more than a tenth of a feature's values lie outside what the encoder expects,
    unless ``allow_outside``.

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=2))
    >>> count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"]).class_names
    ('ill', 'well')
    """
    require_type("encoder", encoder, Encoder)
    total = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    total.add_samples(features, labels)
    return total.snapshot()


def sum_statistics(contributions: Iterable[Statistics]) -> Statistics:
    """The sum of at least one contribution, in memory that does not grow with their number.

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range, sum_statistics
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> sum_statistics(count(encoder, [[x]], [0]) for x in (0.1, 0.5, 0.9)).sample_count
    3
    """
    require_type("contributions", contributions, Iterable, advice="several statistics")
    total: Accumulator | None = None
    for contribution in contributions:
        require_type("contribution", contribution, Statistics, advice=ONLY_EXACT)
        total = total or Accumulator(contribution.space)
        total.add(contribution)
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one contribution")
    return total.snapshot()
