"""Grams on the wire: the free products; for few samples, some columns that determine all others.

The gram alone determines the columns sent, so that equal statistics have equal bytes. Columns are
tried in a fixed order: first a constant, which costs nothing because its products are the totals;
then all columns that are not constant, narrow ranges first, those of one range in the order of a
hash. Of the first ``2 n + 64``, the lexicographically first independent ones (modulo a prime, so
that no rounding decides) are the basis; some spare columns, more than the basis needs, follow it
and help where it is nearly dependent. An entry is sent as its difference from ``t_i t_j // n``,
which the totals predict.

The class sums and count of a class are its products with the constant column: these are not sent
again, and a class of one sample needs nothing more than its sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from safle.encoders.splitmix import hashes
from safle.errors import InvariantError, WireError
from safle.statistics import triangle
from safle.statistics.free_sums import FreeSums
from safle.statistics.gram import Triangle
from safle.statistics.low_rank import LowRank, first_independent
from safle.statistics.statistics import Margins, Statistics
from safle.statistics.triangle import Integers, Packed
from safle.wire.container import Container

MAX_SPARE_COLUMNS = 8
"""Most spare columns behind a basis."""
PER_SPARE = 1
PER_SPARE_OF_CLASS = 32
"""Columns of a basis for each spare column: a class has few samples, so eight would be many."""
MAX_SAMPLES = 65_535
"""Products of two totals, up to 32,767 n each, stay within 62 bits."""
PROBES = 32
"""Vectors of random signs; each shows a wrong entry with probability of at least 1/2."""
TOLERANCE = 0.1


def has_few_samples(margins: Margins) -> bool:
    """Whether there are so few samples that some columns determine the gram."""
    return 0 < margins.sample_count <= min(MAX_SAMPLES, (margins.dim - MAX_SPARE_COLUMNS) // 2)


def working_bytes(margins: Margins) -> int:
    """Most memory that finding the columns, or all others from them, takes beside the gram."""
    dim = margins.dim
    width = margins.sample_count + MAX_SPARE_COLUMNS
    return 8 * (3 * dim * width + 2 * min(2 * width + 64, dim) ** 2) + (1 << 24)


def candidates(margins: Margins) -> tuple[Integers, int]:
    """Rows of the gram in the order in which they are tried, and how many may be in a basis."""
    widths = np.ones(margins.dim, np.int64)
    widths[len(margins.codes) :] = margins.layout.largest
    order = np.lexsort((hashes(0, margins.dim, 0), widths))
    constants = FreeSums.of(margins).constants
    order = np.concatenate([constants[:1], order[~np.isin(order, constants)]])
    return order, min(2 * margins.sample_count + 64, len(order))


@dataclass(frozen=True)
class _BasisColumns:
    """Columns that determine the gram of few samples.

    Attributes
    ----------
    basis : bool, (candidates,), which candidates are independent of those before them
    chosen : int64, rows of the gram: the basis, then the spare ones
    """

    margins: Margins
    basis: NDArray[np.bool_]
    chosen: Integers

    @staticmethod
    def of(margins: Margins, basis: NDArray[np.bool_], per_spare: int) -> _BasisColumns:
        """The columns that a basis, some of the `candidates`, selects."""
        order, _ = candidates(margins)
        places = np.flatnonzero(basis)
        end = int(places[-1]) + 1 if len(places) else 0
        spare_count = min(MAX_SPARE_COLUMNS, len(places) // per_spare)
        spare = np.arange(end, min(end + spare_count, len(order)))
        return _BasisColumns(margins, basis, order[np.concatenate([places, spare])])

    @property
    def rank(self) -> int:
        return int(self.basis.sum())

    @cached_property
    def _free(self) -> FreeSums:
        return FreeSums.of(self.margins)

    @cached_property
    def _sent(self) -> NDArray[np.bool_]:
        """Which of the chosen columns are sent: constants follow from the totals."""
        return ~np.isin(self.chosen, self._free.constants)

    @cached_property
    def _rows(self) -> Integers:
        """Rows outside the chosen columns that are sent; the others follow from the totals."""
        return np.setdiff1d(self._free.rows, self.chosen)

    def _expected(self, rows: Integers) -> Integers:
        """``t_i t_j // n`` of rows and the columns that are sent, int64, (rows, sent)."""
        totals = self.margins.totals
        return totals[rows][:, None] * totals[self.chosen[self._sent]] // self.margins.sample_count

    @property
    def value_count(self) -> int:
        """Number of values of `to_values`, known before they are decompressed."""
        width = int(self._sent.sum())
        return triangle.packed_size(width) + len(self._rows) * width

    def to_values(self, columns: Integers) -> Integers:
        """The values to send of the chosen columns, (dim, chosen).

        They are the upper triangle of the columns' own rows, then the other rows.
        """
        sent = self.chosen[self._sent]
        columns = columns[:, self._sent]
        block = columns[sent] - self._expected(sent)
        others = columns[self._rows]
        others -= self._expected(self._rows)
        return np.concatenate([block[np.triu_indices(len(sent))], others.reshape(-1)])

    def _from_values(self, values: Integers) -> Integers:
        """The chosen columns of the gram, int64, (dim, chosen)."""
        margins = self.margins
        sent = self.chosen[self._sent]
        rows = self._rows
        known = np.zeros((margins.dim, len(sent)), np.int64)
        block = np.zeros((len(sent), len(sent)), np.int64)
        size = triangle.packed_size(len(sent))
        block[np.triu_indices(len(sent))] = values[:size]
        block += np.triu(block, 1).T
        known[sent] = block + self._expected(sent)
        known[rows] = self._expected(rows)
        known[rows] += values[size:].reshape(len(rows), len(sent))
        restored = self._free.restore_rows(known[self._free.rows], margins.totals[sent])
        if (restored[sent] != known[sent]).any():
            raise WireError("the columns sent contradict each other; they were altered")
        columns = np.empty((margins.dim, len(self.chosen)), np.int64)
        columns[:, self._sent] = restored
        constants = self.chosen[~self._sent] - len(margins.codes)
        columns[:, ~self._sent] = margins.layout.low[constants] * margins.totals[:, None]
        return columns

    def restore(self, values: Integers) -> LowRank:
        """The root of the gram that the values of `to_values` determine."""
        columns = self._from_values(values)
        gram = LowRank.of(columns, self.chosen, self.rank, self.margins)
        spare = ~np.isin(self.chosen, gram.pivots)
        if (gram.columns(self.chosen[spare]) != columns[:, spare]).any():
            raise WireError("the columns sent contradict each other; they were altered")
        n = self.margins.sample_count
        places = np.flatnonzero(self.basis)
        order, most = candidates(self.margins)
        tried = order[: int(places[-1]) + 1 if self.rank == n else most]
        if not np.array_equal(first_independent(gram.columns(tried, tried), n), places):
            raise WireError("the columns are not those that the format prescribes")
        return gram


def choose(
    statistics: Statistics, per_spare: int = PER_SPARE
) -> tuple[_BasisColumns, Integers] | None:
    """The columns that the format prescribes, and their entries; None if all products are sent."""
    if not has_few_samples(statistics):
        return None
    chosen = _BasisColumns.of(statistics, _basis(statistics), per_spare)
    entries = statistics.gram.columns(chosen.chosen)
    return (chosen, entries) if _determines(statistics, chosen, entries) else None


def _basis(statistics: Statistics) -> NDArray[np.bool_]:
    n = statistics.sample_count
    order, most = candidates(statistics)
    basis = np.zeros(most, np.bool_)
    # Usually the first n are independent; only if they are not, all are tried.
    for tried in (order[: min(n, most)], order[:most]):
        independent = first_independent(statistics.gram.columns(tried, tried), n)
        if len(independent) == n:
            break
    basis[independent] = True
    return basis


def _determines(statistics: Statistics, chosen: _BasisColumns, entries: Integers) -> bool:
    """Whether the receiver would restore every entry, tested by random combinations of them."""
    try:
        gram = LowRank.of(entries, chosen.chosen, chosen.rank, statistics)
    except InvariantError:
        return False
    signs = np.random.Generator(np.random.PCG64(0)).choice([-1.0, 1.0], (statistics.dim, PROBES))
    differences = gram.multiply(signs) - statistics.gram.multiply(signs)
    return bool((np.abs(differences) < TOLERANCE).all())


def encode_gram(statistics: Statistics, per_spare: int = PER_SPARE) -> tuple[bytes | None, Packed]:
    """The bits of a basis and the values of its columns; or None and all free products."""
    choice = choose(statistics, per_spare)
    if choice is None:
        return None, FreeSums.of(statistics).take_products(statistics)
    chosen, entries = choice
    return pack_bits(chosen.basis), chosen.to_values(entries)


def basis_bytes(margins: Margins) -> int:
    """Bytes of a basis; `WireError` for more samples than a basis can determine."""
    if not has_few_samples(margins):
        raise WireError(
            f"form 'columns' with {margins.sample_count:,} samples and {margins.dim:,} columns; "
            "expected form 'whole'"
        )
    return -(-candidates(margins)[1] // 8)


def read_basis(margins: Margins, data: bytes, per_spare: int = PER_SPARE) -> _BasisColumns:
    """The columns that the bits of a basis name."""
    basis = unpack_bits(data, candidates(margins)[1])
    if not 0 < basis.sum() <= margins.sample_count:
        raise WireError("the basis does not fit the number of samples")
    return _BasisColumns.of(margins, basis, per_spare)


def product_count(margins: Margins) -> int:
    """How many free products a gram has: known before they are decompressed."""
    return int(FreeSums.of(margins).starts[-1])


def read_products(margins: Margins, values: Packed) -> Triangle:
    """The gram that has these free products; `require_whole` checks its form."""
    packed = FreeSums.of(margins).restore_gram(values, margins.totals)
    return Triangle.narrow(packed, margins.dim)


def require_whole(statistics: Statistics, per_spare: int = PER_SPARE) -> None:
    """Refuse a gram that was sent whole, but should have been sent as columns.

    This takes memory, so readers free the values sent before they call it.
    """
    if choose(statistics, per_spare) is not None:
        raise WireError("form 'whole' for a gram of few samples; expected form 'columns'")


def class_sections(parts: Sequence[Statistics]) -> dict[str, bytes | Integers]:
    """The sections of all classes, one after the other."""
    bases, values = zip(*(encode_gram(part, PER_SPARE_OF_CLASS) for part in parts), strict=True)
    as_columns = np.array([basis is not None for basis in bases], np.bool_)
    return {
        "class_forms": pack_bits(as_columns),
        "class_basis": b"".join(basis for basis in bases if basis is not None),
        "class_sums": np.concatenate(values),
    }


def read_classes(margins: Margins, opened: Container, whole_bytes: int) -> Sequence[Statistics]:
    """The statistics of each class, unverified except for the form of its gram.

    ``whole_bytes`` were reserved for the whole gram, which is read afterwards.
    """
    parts = [margins.of_class(place) for place in range(len(margins.class_names))]
    forms = unpack_bits(opened.section("class_forms", -(-len(parts) // 8)), len(parts))
    sizes = [basis_bytes(part) if form else 0 for part, form in zip(parts, forms, strict=True)]
    raw = opened.section("class_basis", sum(sizes))
    ends = np.cumsum(sizes)
    columns = [
        read_basis(part, raw[end - size : end], PER_SPARE_OF_CLASS) if size else None
        for part, size, end in zip(parts, sizes, ends, strict=True)
    ]
    counts = [
        chosen.value_count if chosen else product_count(part)
        for part, chosen in zip(parts, columns, strict=True)
    ]
    reading = class_bytes(parts, sum(counts))
    held = sum(map(held_bytes, parts, columns))
    # The memory of the whole gram is still free while the grams of classes are read.
    opened.reserve(max(reading - whole_bytes, held), f"grams of {len(parts)} classes")
    values = np.split(opened.array("class_sums", (sum(counts),)), np.cumsum(counts)[:-1])
    grams = [
        chosen.restore(sent) if chosen else read_products(part, sent)
        for part, chosen, sent in zip(parts, columns, values, strict=True)
    ]
    del values
    found = [part.with_gram(gram) for part, gram in zip(parts, grams, strict=True)]
    for part, chosen in zip(found, columns, strict=True):
        if not chosen:
            require_whole(part, PER_SPARE_OF_CLASS)
    return found


def held_bytes(margins: Margins, columns: _BasisColumns | None) -> int:
    """Most memory that a gram takes once it is read: a triangle, or a root in both precisions."""
    if columns is None:
        return 8 * triangle.packed_size(margins.dim)
    return (8 + 4) * columns.rank * margins.dim + 8 * columns.rank**2


def class_bytes(parts: Sequence[Margins], values: int) -> int:
    """Most memory that reading the grams of these classes, and multiplying them out, takes."""
    dim = parts[0].dim
    working = max(working_bytes(part) for part in parts)
    grams = 8 * triangle.packed_size(dim) * len(parts)
    return grams + 24 * values + 32 * dim * (len(parts) + dim) + working


def pack_bits(flags: NDArray[np.bool_]) -> bytes:
    """Flag i in bit i mod 8 of byte i // 8."""
    return np.packbits(flags, bitorder="little").tobytes()


def unpack_bits(data: bytes, count: int) -> NDArray[np.bool_]:
    """The inverse of `pack_bits`; `WireError` if the padding is not zero."""
    flags = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").view(np.bool_)
    if flags[count:].any():
        raise WireError("the padding of a bitmap is not zero")
    return flags[:count]
