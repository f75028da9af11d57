"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts). Feeds the solver.

An immutable value of exact integers: ``total = hospital_a + hospital_b``, and
``total - hospital_b == hospital_a``. Only what was seen is held: codes that occurred,
classes that occurred. That makes the value canonical: equal data give equal bytes,
however they were split.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._internal.memory import require
from safle.encoders import Encoder
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName, as_class_names
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput, InvariantError
from safle.statistics.invariants import verify
from safle.statistics.kernels import triangle


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over samples that all the rest follows from.

    Attributes
    ----------
    fingerprint : of the encoder that made the codes
    layout : of the code space
    codes : int64, (seen,), ascending columns of the codes that occurred
    gram : int32 or int64, packed upper triangle over seen codes and dense columns
    cross : int64, (seen + dense_dim, class_count)
    class_names : ascending, all int or all str
    class_counts : int64, (class_count,), positive
    """

    fingerprint: str
    layout: Layout
    codes: NDArray[np.int64]
    gram: NDArray[np.signedinteger[Any]]
    cross: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    class_counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.codes, self.gram, self.cross, self.class_counts):
            array.setflags(write=False)

    @staticmethod
    def empty(encoder: Encoder) -> Statistics:
        """The statistics of no samples: the zero of `+`."""
        return RunningTotal.of(encoder).statistics()

    @property
    def dim(self) -> int:
        """Rows of the gram: seen codes and dense columns."""
        return len(self.codes) + self.layout.dense_dim

    @cached_property
    def sample_count(self) -> int:
        return int(self.class_counts.sum())

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First row of each expert in the gram, then the number of seen codes."""
        return np.searchsorted(self.codes, self.layout.bases).astype(np.int64)

    @cached_property
    def diagonal(self) -> NDArray[np.int64]:
        """Diagonal of the gram, int64, (dim,): how often each code occurred."""
        return triangle.diagonal(self.gram, self.dim)

    def gram_square(self) -> NDArray[np.int64]:
        """The gram as a full matrix, int64, (dim, dim); for small ones."""
        return triangle.to_square(self.gram, self.dim)

    def verify(self) -> None:
        """Check the invariants of `safle.statistics.invariants`; raises `InvariantError`."""
        verify(self)

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        return sum_statistics([self, other])

    def __sub__(self, other: Statistics) -> Statistics:
        """Take a contribution back: the statistics that never saw it."""
        if not isinstance(other, Statistics):
            return NotImplemented
        total = RunningTotal.starting_from(self)
        total.subtract(other)
        left = total.statistics()
        try:
            left.verify()
        except InvariantError as error:
            raise InvariantError(
                f"without the contribution, {error}; it was not part of the sum"
            ) from error
        return left

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Statistics)
            and self.fingerprint == other.fingerprint
            and self.class_names == other.class_names
            and np.array_equal(self.class_counts, other.class_counts)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.cross, other.cross)
            and np.array_equal(self.gram, other.gram)
        )

    __hash__ = None  # type: ignore[assignment]


def sum_statistics(contributions: Iterable[Statistics]) -> Statistics:
    """The sum of at least one contribution, in memory that does not grow with their number."""
    total: RunningTotal | None = None
    for contribution in contributions:
        if total is None:
            total = RunningTotal.starting_from(contribution)
        else:
            total.add(contribution)
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one contribution")
    return total.statistics()


class RunningTotal:
    """Statistics under construction: arrays that grow with what has been seen."""

    def __init__(self, fingerprint: str, layout: Layout) -> None:
        self.fingerprint = fingerprint
        self.layout = layout
        self.codes = np.empty(0, np.int64)
        self.class_names: tuple[ClassName, ...] = ()
        self.class_counts = np.zeros(0, np.int64)
        self.cross = np.zeros((layout.dense_dim, 0), np.int64)
        self.gram = np.zeros(triangle.packed_size(layout.dense_dim), layout.gram_type)

    @staticmethod
    def of(encoder: Encoder) -> RunningTotal:
        return RunningTotal(encoder.fingerprint, encoder.layout)

    @staticmethod
    def starting_from(first: Statistics) -> RunningTotal:
        total = RunningTotal(first.fingerprint, first.layout)
        total.add(first)
        return total

    @property
    def dim(self) -> int:
        return len(self.codes) + self.layout.dense_dim

    @property
    def sample_count(self) -> int:
        return int(self.class_counts.sum())

    def reserve(self, samples: int) -> None:
        """Refuse ``samples`` more if a count could then overflow."""
        most = self.layout.most_samples
        if self.sample_count + samples > most:
            raise CountOverflow(
                f"{self.sample_count} + {samples} samples exceed the {most} that this gram's "
                "integers can count: split the federation"
            )

    def widen_codes(self, codes: NDArray[np.int64]) -> None:
        """Make room for ``codes`` (ascending); those already seen keep their counts."""
        union = np.union1d(self.codes, codes)
        if len(union) == len(self.codes):
            return
        dim = len(union) + self.layout.dense_dim
        entries = triangle.packed_size(dim)
        require(
            entries * self.gram.itemsize,
            purpose=f"a gram of {dim} rows ({len(union)} codes seen)",
            advice="use an encoder with smaller tables (group_size, buckets)",
        )
        positions = self._positions(self.codes, union)
        gram: NDArray[np.signedinteger[Any]] = np.zeros(entries, self.layout.gram_type)
        triangle.add_spread(gram, dim, self.gram, positions, 1)
        cross = np.zeros((dim, len(self.class_names)), np.int64)
        cross[positions] = self.cross
        self.codes, self.gram, self.cross = union, gram, cross

    def widen_classes(self, names: Iterable[ClassName]) -> None:
        """Make room for classes, by name."""
        union = as_class_names([*{*self.class_names, *names}])
        if union == self.class_names:
            return
        places = [union.index(name) for name in self.class_names]
        counts = np.zeros(len(union), np.int64)
        counts[places] = self.class_counts
        cross = np.zeros((self.dim, len(union)), np.int64)
        cross[:, places] = self.cross
        self.class_names, self.class_counts, self.cross = union, counts, cross

    def add(self, other: Statistics) -> None:
        """Add a contribution in place."""
        self._check_same_encoder(other)
        self.reserve(other.sample_count)
        self.widen_classes(other.class_names)
        self.widen_codes(other.codes)
        self._apply(other, 1)

    def subtract(self, other: Statistics) -> None:
        """Take a contribution back; `InvariantError` if it cannot have been part."""
        self._check_same_encoder(other)
        known = set(other.class_names) <= set(self.class_names)
        if not known or not np.isin(other.codes, self.codes).all():
            raise InvariantError(
                "the contribution holds codes or classes that the sum has never seen; "
                "it was not part of it"
            )
        self._apply(other, -1)
        seen = len(self.codes)
        negative = self.class_counts.min(initial=0) < 0 or self.cross[:seen].min(initial=0) < 0
        if negative or (not self.layout.dense_dim and self.gram.min(initial=0) < 0):
            raise InvariantError(
                "taking the contribution away leaves negative counts; it was not part of the sum"
            )

    def statistics(self) -> Statistics:
        """The total as a value. Codes and classes that no longer occur are dropped."""
        diagonal = triangle.diagonal(self.gram, self.dim)[: len(self.codes)]
        occurring = self.class_counts > 0
        if not occurring.all():
            self.class_names = tuple(np.array(self.class_names, object)[occurring])
            self.class_counts = self.class_counts[occurring]
            self.cross = np.ascontiguousarray(self.cross[:, occurring])
        if not diagonal.all():
            self._keep(np.flatnonzero(diagonal))
        return Statistics(
            self.fingerprint,
            self.layout,
            self.codes,
            self.gram,
            self.cross,
            self.class_names,
            self.class_counts,
        )

    def _keep(self, seen: NDArray[np.int64]) -> None:
        rows = np.concatenate([seen, np.arange(len(self.codes), self.dim)])
        gram = np.empty(triangle.packed_size(len(rows)), self.gram.dtype)
        triangle.take(self.gram, self.dim, rows, gram)
        self.codes, self.gram, self.cross = self.codes[seen], gram, self.cross[rows]

    def _positions(self, codes: NDArray[np.int64], within: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of ``codes`` and of the dense columns in a gram over ``within``."""
        dense = len(within) + np.arange(self.layout.dense_dim)
        return np.concatenate([np.searchsorted(within, codes), dense]).astype(np.int64)

    def _apply(self, other: Statistics, sign: int) -> None:
        positions = self._positions(other.codes, self.codes)
        places = np.array([self.class_names.index(name) for name in other.class_names], np.int64)
        self.class_counts[places] += sign * other.class_counts
        self.cross[np.ix_(positions, places)] += sign * other.cross
        if len(positions) != self.dim:
            triangle.add_spread(self.gram, self.dim, other.gram, positions, sign)
        elif sign > 0:
            self.gram += other.gram
        else:
            self.gram -= other.gram

    def _check_same_encoder(self, other: Statistics) -> None:
        if other.fingerprint != self.fingerprint:
            raise EncoderMismatch(
                f"counted with encoder {other.fingerprint[:12]}…, this federation uses "
                f"{self.fingerprint[:12]}…; give the client that encoder file and count again"
            )
        if other.layout != self.layout:
            raise EncoderMismatch(
                f"claims encoder {other.fingerprint[:12]}… but has another layout of codes"
            )
