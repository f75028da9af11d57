"""The accumulator: the one mutable thing, statistics under construction.

Samples, other statistics and (through `safle.wire`) bytes go in, `subtract` takes a
contribution back, and `snapshot` gives what has been gathered as an immutable value. `count` and
`sum_statistics` are that in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.memory import require
from safle.basics.texts import name_some, require_type
from safle.encoders import Encoder
from safle.encoders.codes import Codes, CodeSpace
from safle.encoders.features import ClassName, as_class_names, as_labels, as_weights
from safle.encoders.outside import Outside
from safle.errors import CountOverflow, InvalidInput, InvariantError
from safle.statistics import triangle
from safle.statistics.gram import Triangle
from safle.statistics.growing import GrowingSums, Pending
from safle.statistics.value import EXACT, Statistics

GATHERED = 8_192
"""Samples gathered before they are counted: a code first seen later makes the gram move."""


class Accumulator:
    """Statistics under construction, in memory that depends on the number of columns only.

    Parameters
    ----------
    encoder : what samples are counted with; its code space is enough to add statistics alone
    classes : the only names that labels may have
    allow_outside : count samples although more than a tenth of a feature's values lie outside the
        range or the levels that the encoder expects

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
        self._outside = None if self._encoder is None else Outside(self._encoder)
        self._allow_outside = allow_outside
        own: Sequence[ClassName] = () if self._encoder is None else self._encoder.classes
        self._declared = as_class_names(own if classes is None else classes)
        if own and not {*self._declared} <= {*own}:
            raise InvalidInput(
                f"classes {name_some(self._declared)}; the encoder is for {name_some(own)} only"
            )
        self._all_declared = bool(own) or classes is not None
        self._found: set[ClassName] = set()
        self._pending = Pending()
        self._sums = GrowingSums(self.layout)
        self._by_class: dict[ClassName, Accumulator] = {}

    def __repr__(self) -> str:
        return (
            f"<Accumulator: {self.sample_count:,} samples, {len(self._sums.class_names)} classes, "
            f"{self._sums.dim:,} columns, encoder {self.space.fingerprint[:12]}…>"
        )

    @property
    def sample_count(self) -> int:
        return int(self._sums.class_counts.sum()) + len(self._pending)

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
        assert self._outside is not None, "there is an encoder"
        self._outside.add(checked)
        for first in range(0, len(checked), GATHERED):
            part = slice(first, first + GATHERED)
            codes = self._encoder.encode_checked(checked[part])
            if times is None:
                self._gather(codes, names[part], GATHERED)
            else:
                self._gather_repeated(codes, names[part], times[part])

    def add(self, other: Statistics) -> None:
        """Add a contribution."""
        require_type("contribution", other, Statistics, advice=EXACT)
        self.space.require(other.space)
        self._count_pending()
        self.reserve(other.sample_count)
        self._widen(other)
        self._sums.make_room(int(other.diagonal.max(initial=0)))
        # The gram first: it is the one that may be refused.
        self._sums.add_gram(other)
        self._sums.add_margins(other, 1)
        for name, part in zip(other.class_names, other.by_class, strict=False):
            self._by_class[name].add(part)

    def subtract(self, other: Statistics) -> None:
        """Take a contribution back; `InvariantError` if it cannot have been part."""
        require_type("contribution", other, Statistics, advice=EXACT)
        self.space.require(other.space)
        self._count_pending()
        known = set(other.class_names) <= set(self._sums.class_names)
        if not known or not np.isin(other.codes, self._sums.codes).all():
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
        """What has been gathered so far; the accumulator can go on.

        `InvalidInput` if too many values lie outside what the encoder expects: see
        `safle.encoders.outside`.
        """
        if self._outside is not None:
            self._outside.judge(allowed=self._allow_outside)
        if self._pending and not self._sums.class_names:
            margins, few = self._pending.as_few(self.space)
            if 2 * margins.sample_count <= margins.dim:
                return margins.with_gram(few, self._class_values(margins.class_names))
        self._count_pending()
        return self._as_value()

    def reserve(self, samples: int) -> None:
        """Refuse ``samples`` more if a count could then overflow."""
        most = self.layout.most_samples
        if self.sample_count + samples > most:
            raise CountOverflow(
                f"{self.sample_count} + {samples} samples exceed the {most} that this gram's "
                "integers can count: split the federation"
            )

    def _widen(self, other: Statistics) -> None:
        self._sums.widen(other.class_names, other.codes)
        self._make_classes(other.class_names)

    def _make_classes(self, names: Iterable[ClassName]) -> None:
        """Where columns are counted by class, begin with those that are new."""
        block = self.layout.class_layout
        new = {*names} - {*self._by_class} if block else set()
        if block is None or not new:
            return
        require(
            len(new) * triangle.packed_size(block.dense_dim) * self._sums.gram.itemsize,
            purpose=f"grams of {block.dense_dim} rows for each of {len(new)} classes",
            advice="count fewer classes, fewer features, or not by class (by_class)",
        )
        for name in new:
            self._by_class[name] = Accumulator(CodeSpace(self.space.fingerprint, block))

    def _combine(self, other: Statistics, sign: int) -> None:
        """Add or take back everything of ``other``, unchecked."""
        self._count_pending()
        self._widen(other)
        self._sums.add_gram(other, sign)
        self._sums.add_margins(other, sign)
        for name, part in zip(other.class_names, other.by_class, strict=False):
            self._by_class[name]._combine(part, sign)

    def _check_not_negative(self) -> None:
        self._sums.check_not_negative()
        if any(self._by_class[n]._sums.gram.any() for n in self._sums.absent() & {*self._by_class}):
            raise InvariantError("a class without samples has sums")

    def _check_names(self, labels: NDArray[Any]) -> set[ClassName]:
        found = set(labels.tolist())
        if self._all_declared and not found <= set(self._declared):
            unknown = sorted(found - set(self._declared), key=str)
            raise InvalidInput(
                f"labels contain {name_some(unknown)}, which are not among the declared classes "
                f"{name_some(self._declared)}"
            )
        as_class_names([*{*self._sums.class_names, *self._found, *found}])
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
        if self._pending:
            self._sums.count(*self._pending.take())

    def _class_values(self, names: Sequence[ClassName]) -> tuple[Statistics, ...]:
        chosen = names if self.layout.class_layout else ()
        return tuple(self._by_class[name].snapshot() for name in chosen)

    def _as_value(self) -> Statistics:
        """The total as a value; codes and classes that do not occur are dropped."""
        sums = self._sums
        sums.trim()
        self._by_class = {n: self._by_class[n] for n in sums.class_names if n in self._by_class}
        # The value is not ours to change.
        sums.share()
        by_class = self._class_values(sums.class_names)
        gram = Triangle(sums.gram, sums.dim)
        return sums.margins(self.space).with_gram(gram, by_class)


def count(
    encoder: Encoder,
    features: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[ClassName] | None = None,
    weights: ArrayLike | None = None,
    allow_outside: bool = False,
) -> Statistics:
    """Statistics of one array of features, (samples, feature_dim), and its labels.

    With ``weights``, whole numbers, a sample of weight w counts as if it stood there w times, to
    the byte: a sum does not tell the two apart. `InvalidInput` if more than a tenth of a feature's
    values lie outside what the encoder expects, unless ``allow_outside``.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"]).class_names
    ('ill', 'well')
    """
    require_type("encoder", encoder, Encoder)
    total = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    total.add_samples(features, labels, weights)
    return total.snapshot()


def sum_statistics(contributions: Iterable[Statistics]) -> Statistics:
    """The sum of at least one contribution, in memory that does not grow with their number.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count, sum_statistics
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> sum_statistics(count(encoder, [[x]], [0]) for x in (0.1, 0.5, 0.9)).sample_count
    3
    """
    require_type("contributions", contributions, Iterable, advice="several statistics")
    total: Accumulator | None = None
    for contribution in contributions:
        require_type("contribution", contribution, Statistics, advice=EXACT)
        total = total or Accumulator(contribution.space)
        total.add(contribution)
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one contribution")
    return total.snapshot()
