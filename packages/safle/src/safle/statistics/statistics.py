"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts). Feeds the solver.

An immutable value of exact integers: ``total = hospital_a + hospital_b``, and
``total - hospital_b == hospital_a``. It holds only codes and classes that occurred. That makes it
canonical: equal data give equal bytes, however they were split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle.basics.settings import as_settings
from safle.basics.texts import list_names, require_type
from safle.encoders.codes import Codes, CodeSpace, Layout
from safle.errors import InvariantError, SettingsError
from safle.statistics import counting, triangle
from safle.statistics.cells import cells_of
from safle.statistics.gram import Gram, Samples, Triangle
from safle.statistics.invariants import verify
from safle.tables.checks import ClassName, as_class_names, is_digest

if TYPE_CHECKING:
    from safle.statistics.exposure import Exposure

ONLY_EXACT = "exact sums; sums with noise are solved, not added"


class _Declaration(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: str
    layout: list[dict[str, Any]]
    classes: list[ClassName]


@dataclass(frozen=True, eq=False, repr=False)
class Margins:
    """Statistics without the gram.

    Attributes
    ----------
    space : the code space
    codes : int64, (seen,), ascending columns of the codes that occurred
    cross : int64, (seen + dense_dim, class_count)
    class_names : ascending, all int or all str
    class_counts : int64, (class_count,), positive
    """

    space: CodeSpace
    codes: NDArray[np.int64]
    cross: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    class_counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.codes, self.cross, self.class_counts):
            array.setflags(write=False)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder that made the codes."""
        return self.space.fingerprint

    @property
    def layout(self) -> Layout:
        """Layout of the codes."""
        return self.space.layout

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
    def totals(self) -> NDArray[np.int64]:
        """Sum of each column over all samples, int64, (dim,)."""
        return self.cross.sum(axis=1)

    @cached_property
    def low(self) -> NDArray[np.int64]:
        """Smallest value of each column, int64, (dim,)."""
        return np.concatenate([np.zeros(len(self.codes), np.int64), self.layout.low])

    @cached_property
    def high(self) -> NDArray[np.int64]:
        """Largest value of each column, int64, (dim,)."""
        return np.concatenate([np.ones(len(self.codes), np.int64), self.layout.high])

    @cached_property
    def experts(self) -> NDArray[np.int32]:
        """The expert of each code, int32, (dim,); negative, and different, for dense columns."""
        owners = np.repeat(np.arange(self.layout.experts), np.diff(self.offsets))
        return np.concatenate([owners, -1 - np.arange(self.layout.dense_dim)]).astype(np.int32)

    def of_class(self, place: int) -> Margins:
        """Margins of one class's samples, in the columns that are counted by class."""
        layout = self.layout.class_layout
        assert layout is not None, "nothing is counted by class"
        return Margins(
            CodeSpace(self.fingerprint, layout),
            np.empty(0, np.int64),
            self.cross[: layout.dim, place : place + 1],
            self.class_names[place : place + 1],
            self.class_counts[place : place + 1],
        )

    def with_gram(self, gram: Gram, by_class: Sequence[Statistics] = ()) -> Statistics:
        """These margins with the gram that belongs to them, and the sums of each class."""
        return Statistics(
            self.space,
            self.codes,
            self.cross,
            self.class_names,
            self.class_counts,
            gram,
            tuple(by_class),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Sums(Margins):
    """The sums that a model is solved from: margins and their grams, exact or noisy.

    Attributes
    ----------
    gram : of seen codes and dense columns
    by_class : where the layout counts columns by class, the statistics of each class alone, over
        these columns; in the order of ``class_names``

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(
    ...     declared_range(-1, 1, feature_dim=1), fraction_bits=0, by_class=True
    ... )
    >>> ill, _ = count(encoder, [[1.0], [-1.0], [0.0]], ["ill", "ill", "well"]).by_class
    >>> ill.gram_square().tolist()
    [[8, 0], [0, 2]]
    """

    gram: Gram
    by_class: tuple[Statistics, ...] = ()

    @property
    def least_ridge(self) -> float:
        """The least ridge, in real units, that makes weights of these sums useful; 0 if exact."""
        return 0.0

    @property
    def gives_temperature(self) -> bool:
        """Whether these sums show how far scores are off: those with noise do not."""
        return True

    @property
    def promise(self) -> str:
        """What noise promises to each person who is one sample of these sums; empty if exact."""
        return ""

    @property
    def columns(self) -> int:
        return self.dim

    @property
    def made_with(self) -> Mapping[str, str]:
        return {"encoder": self.fingerprint}

    @property
    def most_samples(self) -> int:
        return self.layout.most_samples

    def declaration(self) -> dict[str, Any]:
        """Code space and classes, as JSON."""
        return {
            "fingerprint": self.fingerprint,
            "layout": self.layout.to_json(),
            "classes": list(self.class_names),
        }

    def samples_by_class(self) -> dict[ClassName, int]:
        counts = zip(self.class_names, self.class_counts.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def holds(self) -> str:
        return f"{self.dim * (self.dim + 1) // 2:,} sums of products of {self.dim:,} columns"

    @property
    def diagonal(self) -> NDArray[np.int64]:
        """Diagonal of the gram, int64, (dim,): how often each code occurred."""
        return self.gram.diagonal

    def gram_square(self) -> NDArray[np.int64]:
        """The gram as a full matrix, int64, (dim, dim); for small ones."""
        return triangle.to_square(self.gram.packed, self.dim)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and self.fingerprint == other.fingerprint
            and self.class_names == other.class_names
            and np.array_equal(self.class_counts, other.class_counts)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.cross, other.cross)
            and np.array_equal(self.gram.packed, other.gram.packed)
            and self.by_class == other.by_class
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = f"{self.sample_count:,} samples, {len(self.class_names)} classes"
        columns = f"{self.dim:,} columns, encoder {self.fingerprint[:12]}…"
        return f"<{type(self).__name__}: {sizes}, {columns}>"


@dataclass(frozen=True, eq=False, repr=False)
class Statistics(Sums):
    """Exact sums over samples, from which a model is solved.

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=2))
    >>> a = count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> b = count(encoder, [[0.7, 0.3]], ["ill"])
    >>> (a + b).sample_count, a + b - b == a
    (3, True)
    """

    format: ClassVar[str] = "statistics"

    @staticmethod
    def empty(space: CodeSpace, classes: Sequence[ClassName] = ()) -> Statistics:
        """The statistics of no samples, the zero of `+`; ``classes`` may occur in its vectors."""
        layout = space.layout
        nothing = np.empty(0, np.int64)
        names = as_class_names(classes)
        cross = np.zeros((layout.dense_dim, len(names)), np.int64)
        margins = Margins(space, nothing, cross, names, np.zeros(len(names), np.int64))
        rows = np.zeros((layout.experts, 0), np.int32)
        dense = np.zeros((0, layout.dense_dim), np.int16)
        return margins.with_gram(Samples(rows, dense, margins.offsets))

    @classmethod
    def declared(cls, content: Mapping[str, Any]) -> Statistics:
        """The zero of a `declaration`."""
        given = as_settings(_Declaration, content, where="statistics: ")
        if not is_digest(given.fingerprint):
            raise SettingsError("the fingerprint is not 64 hexadecimal digits")
        return Statistics.empty(
            CodeSpace(given.fingerprint, Layout.from_json(given.layout)), given.classes
        )

    @property
    def cells(self) -> Iterator[NDArray[np.int64]]:
        """The sums that are counts of samples: see `safle.statistics.cells`."""
        return cells_of(self)

    def facts(self) -> dict[str, str]:
        layout = self.layout
        facts = {
            "samples": f"{self.sample_count:,}",
            "classes": list_names(self.class_names),
            "columns": f"{self.dim:,} (codes {len(self.codes):,} of {layout.code_count:,}, dense "
            f"{layout.dense_dim:,})",
        }
        if layout.class_layout:
            facts["columns of each class"] = f"{layout.class_layout.dense_dim:,}"
        return facts | {"encoder": self.fingerprint}

    def exposure(self) -> Exposure:
        """What the attack of `safle.statistics.exposure` finds; it can take seconds."""
        from safle.statistics.exposure import find_exposure

        return find_exposure(self)

    def check_same(self, other: Statistics) -> None:
        """`EncoderMismatch` if another encoder made the other's codes."""
        require_type("contribution", other, Statistics, advice=ONLY_EXACT)
        self.space.check_same(other.space)

    def to_vector(self, zero: Statistics) -> NDArray[np.int64]:
        """Class counts; class sums, column by column; products, row by row; those of each class.

        They are the free sums (`safle.statistics.free_sums`) over the whole layout and all classes
        of ``zero``: they do not show which codes and classes occurred.
        """
        from safle.statistics.free_sums import take_all

        zero.check_same(self)
        if unknown := sorted({*self.class_names} - {*zero.class_names}, key=str):
            raise InvariantError(f"class {unknown[0]!r} is not among those that are declared")
        return take_all(self, zero.class_names)

    def from_vector(self, vector: NDArray[np.int64]) -> Statistics:
        """Of a zero: the canonical statistics with this vector, verified."""
        from safle.statistics.free_sums import restore_all

        value = restore_all(self.space, self.class_names, vector)
        value.verify()
        return value

    def vector_bounds(self) -> NDArray[np.int64]:
        """Of a zero: 1 for a code, else a column's largest magnitude; for products, of both."""
        from safle.statistics.free_sums import bound_all

        return bound_all(self.layout, len(self.class_names))

    def verify(self) -> None:
        """Check the invariants of `safle.statistics.invariants`; raises `InvariantError`."""
        verify(self)

    def __add__(self, other: Statistics) -> Statistics:
        if type(other) is not type(self):
            return NotImplemented
        return self.add_all([other])

    def add_all(self, others: Iterable[Statistics]) -> Statistics:
        """The sum with all others, in memory that does not grow with their number."""
        from safle.statistics.accumulator import sum_statistics

        return sum_statistics(chain([self], others))

    def __sub__(self, other: Statistics) -> Statistics:
        """Take a contribution back: the statistics that never saw it."""
        if type(other) is not type(self):
            return NotImplemented
        from safle.statistics.accumulator import Accumulator

        total = Accumulator(self.space)
        total.add(self)
        total.subtract(other)
        return total.snapshot()


def class_places(names: Sequence[ClassName], within: Sequence[ClassName]) -> NDArray[np.int64]:
    """The place of each of ``names`` in ``within``."""
    place = {name: at for at, name in enumerate(within)}
    return np.array([place[name] for name in names], np.int64)


def count_codes(space: CodeSpace, codes: Codes, labels: NDArray[Any]) -> Statistics:
    """Statistics of encoded samples, with these as the gram; without grams of classes.

    Examples
    --------
    >>> from safle import EmbeddingEncoder, count
    >>> encoder = EmbeddingEncoder([[0.5, 0.5]], buckets=1, group_size=1)
    >>> features, labels = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array(["ill", "well"])
    >>> counted = count_codes(encoder.space, encoder.encode(features), labels)
    >>> counted == count(encoder, features, labels)
    True
    """
    layout = space.layout
    names, places = np.unique(labels, return_inverse=True)
    seen, rows = counting.find_rows(codes.symbols, layout)
    cross = np.zeros((len(seen) + layout.dense_dim, len(names)), np.int64)
    counting.add_cross(cross, rows, codes.dense, places)
    counts = np.bincount(places, minlength=len(names))
    margins = Margins(space, seen, cross, as_class_names(names.tolist()), counts)
    return margins.with_gram(Samples(rows, codes.dense, margins.offsets))


def without_absent(statistics: Statistics) -> Statistics:
    """The same statistics in the narrowest integers, without codes and classes that are absent."""
    occurring = statistics.class_counts > 0
    seen = np.flatnonzero(statistics.diagonal[: len(statistics.codes)])
    packed = statistics.gram.packed
    rows = np.arange(statistics.dim)
    if len(seen) < len(statistics.codes):
        rows = np.concatenate([seen, rows[len(statistics.codes) :]])
        packed = triangle.take(packed, statistics.dim, rows)
    return Statistics(
        statistics.space,
        statistics.codes[seen],
        np.ascontiguousarray(statistics.cross[rows][:, occurring]),
        tuple(compress(statistics.class_names, occurring)),
        statistics.class_counts[occurring],
        Triangle.narrow(packed, len(rows)),
        tuple(compress(statistics.by_class, occurring)),
    )


def digest_of_sum(sums: Sums) -> str:
    """SHA-256 of a sum's encoder, classes, class counts, column sums and squares.

    A model carries it, so that everybody sees whether a store has changed since. Products of two
    columns are left out: sums that differ only in them have the same digest.

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> one, other = count(encoder, [[0.1]], ["low"]), count(encoder, [[0.9]], ["high"])
    >>> digest_of_sum(one + other) == digest_of_sum(other + one) != digest_of_sum(one)
    True
    """
    names = json.dumps([sums.fingerprint, sums.class_names], ensure_ascii=False)
    digest = hashlib.sha256(names.encode())
    for array in (sums.codes, sums.class_counts, sums.cross, sums.diagonal):
        # Equal sums have equal digests, also if their arrays differ in type.
        dtype = np.int64 if array.dtype.kind in "iu" else np.float64
        digest.update(array.astype(dtype).tobytes())
    return digest.hexdigest()
