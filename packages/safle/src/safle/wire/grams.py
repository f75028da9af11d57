"""Grams on the wire: of few samples some columns, which determine the others; else free products.

The columns sent follow from the gram alone, so that equal statistics have equal bytes. All
columns are put in a fixed order: a constant, which costs nothing because its products are the
totals; then narrow ranges first, as a hash says; other constants never. Of the first
``2 n + 64``, the lexicographically first independent ones (modulo a prime, so that no rounding
decides) are the basis; some columns behind its last keep it from being nearly dependent. An
entry is sent as its difference from ``t_i t_j // n``, what the totals alone would expect.

The class sums and count of a class are its products with the constant column: these are not sent
again, and a class of one sample needs nothing more than its sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from safle.encoders.operations import hashes
from safle.errors import InvariantError, WireError
from safle.statistics import Statistics, triangle
from safle.statistics.factor import Factor, first_independent
from safle.statistics.free_sums import FreeSums
from safle.statistics.gram import Gram, Triangle
from safle.statistics.invariants import Bounds
from safle.statistics.triangle import Integers, Packed
from safle.statistics.value import Margins
from safle.wire import container
from safle.wire.files import SectionReader, SectionWriter

SPARE, OF_ALL, OF_A_CLASS = 8, 1, 32
"""Most columns beyond the basis, and how much basis there is for each: eight columns to spare
would be many beside those of a class, which has few samples."""
MOST_SAMPLES = 65_535
"""Products of two totals, up to 32,767 n each, stay within 62 bits."""
PROBES = 32
"""Random signs that would show a wrong entry, each with probability 1/2 at least."""
TOLERANCE = 0.1


def has_few_samples(margins: Margins) -> bool:
    """Whether there are so few samples that some columns determine the gram."""
    return 0 < margins.sample_count <= min(MOST_SAMPLES, (margins.dim - SPARE) // 2)


def working_bytes(margins: Margins) -> int:
    """Most memory that finding the columns, or all others from them, takes beside the gram."""
    dim, width = margins.dim, margins.sample_count + SPARE
    return 8 * (3 * dim * width + 2 * min(2 * width + 64, dim) ** 2) + (1 << 24)


def candidates(margins: Margins) -> tuple[Integers, int]:
    """Rows of the gram in the order in which they are tried, and how many may be in a basis."""
    layout, seen = margins.layout, len(margins.codes)
    widths = np.ones(margins.dim, np.int64)
    limits = np.array(layout.dense_limits, np.int64).reshape(-1, 2)
    widths[seen:] = np.abs(limits).max(axis=1, initial=0)
    order = np.lexsort((hashes(0, margins.dim, 0), widths))
    constants = FreeSums.of(margins).constants
    order = np.concatenate([constants[:1], order[~np.isin(order, constants)]])
    return order, min(2 * margins.sample_count + 64, len(order))


@dataclass(frozen=True)
class Columns:
    """Columns that stand for the gram of few samples.

    Attributes
    ----------
    basis : bool, (candidates,), which candidates are independent of those before them
    chosen : int64, rows of the gram: the basis, then the spare ones
    """

    margins: Margins
    basis: NDArray[np.bool_]
    chosen: Integers

    @staticmethod
    def of(margins: Margins, basis: NDArray[np.bool_], per_spare: int) -> Columns:
        """The columns of these of the `candidates`."""
        order, _ = candidates(margins)
        places = np.flatnonzero(basis)
        after = int(places[-1]) + 1 if len(places) else 0
        wanted = min(SPARE, len(places) // per_spare)
        spare = np.arange(after, min(after + wanted, len(order)))
        return Columns(margins, basis, order[np.concatenate([places, spare])])

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
        """How many `to_values` are: known before they are unfolded."""
        width = int(self._sent.sum())
        return triangle.packed_size(width) + len(self._rows) * width

    def to_values(self, held: Integers) -> Integers:
        """What is sent of ``held``, (dim, chosen): its own block's upper triangle, other rows."""
        own, held = self.chosen[self._sent], held[:, self._sent]
        block = held[own] - self._expected(own)
        others = held[self._rows]
        others -= self._expected(self._rows)
        return np.concatenate([block[np.triu_indices(len(own))], others.reshape(-1)])

    def _from_values(self, values: Integers) -> Integers:
        """The chosen columns of the gram, int64, (dim, chosen)."""
        margins, own, rows = self.margins, self.chosen[self._sent], self._rows
        columns = np.zeros((margins.dim, len(own)), np.int64)
        block = np.zeros((len(own), len(own)), np.int64)
        size = triangle.packed_size(len(own))
        block[np.triu_indices(len(own))] = values[:size]
        block += np.triu(block, 1).T
        columns[own] = block + self._expected(own)
        columns[rows] = self._expected(rows)
        columns[rows] += values[size:].reshape(len(rows), len(own))
        held = np.empty((margins.dim, len(self.chosen)), np.int64)
        held[:, self._sent] = self._free.restore_rows(columns[self._free.rows], margins.totals[own])
        if (held[np.ix_(own, self._sent)] != columns[own]).any():
            raise WireError("the columns sent do not follow from each other; they were altered")
        scales = np.array(margins.layout.dense_scales, np.int64)
        constants = self.chosen[~self._sent] - len(margins.codes)
        held[:, ~self._sent] = scales[constants] * margins.totals[:, None]
        return held

    def restore(self, values: Integers) -> Factor:
        """The root of the gram that the values of `to_values` determine."""
        held = self._from_values(values)
        factor = Factor.of(held, self.chosen, self.rank, Bounds.of(self.margins))
        spare = ~np.isin(self.chosen, factor.basis)
        if (factor.columns(self.chosen[spare]) != held[:, spare]).any():
            raise WireError("the columns sent do not follow from each other; they were altered")
        n, places = self.margins.sample_count, np.flatnonzero(self.basis)
        order, most = candidates(self.margins)
        tried = order[: int(places[-1]) + 1 if self.rank == n else most]
        if not np.array_equal(first_independent(factor.columns(tried, tried), n), places):
            raise WireError("the columns are not those that the format prescribes")
        return factor


def choose(statistics: Statistics, per_spare: int = OF_ALL) -> tuple[Columns, Integers] | None:
    """The columns that the format prescribes, and what they hold; None if all products are sent."""
    if not has_few_samples(statistics) or statistics.layout.only_by_class:
        return None
    chosen = Columns.of(statistics, _basis(statistics), per_spare)
    held = statistics.gram.columns(chosen.chosen)
    return (chosen, held) if _determines(statistics, chosen, held) else None


def _basis(statistics: Statistics) -> NDArray[np.bool_]:
    n, (order, most) = statistics.sample_count, candidates(statistics)
    basis = np.zeros(most, np.bool_)
    # Mostly the first n are independent; the others are looked at only if they are needed.
    for tried in (order[: min(n, most)], order[:most]):
        found = first_independent(statistics.gram.columns(tried, tried), n)
        if len(found) == n:
            break
    basis[found] = True
    return basis


def _determines(statistics: Statistics, chosen: Columns, held: Integers) -> bool:
    """Whether the receiver would rebuild every entry, by random combinations of them."""
    try:
        factor = Factor.of(held, chosen.chosen, chosen.rank, Bounds.of(statistics))
    except InvariantError:
        return False
    signs = np.random.Generator(np.random.PCG64(0)).choice([-1.0, 1.0], (statistics.dim, PROBES))
    differences = factor.multiply(signs) - statistics.gram.multiply(signs)
    return bool((np.abs(differences) < TOLERANCE).all())


def encode_gram(statistics: Statistics, per_spare: int = OF_ALL) -> tuple[bytes | None, Packed]:
    """The bits of a basis and the values of its columns; or None and all free products."""
    found = choose(statistics, per_spare)
    if found is None:
        return None, FreeSums.of(statistics).take_products(statistics)
    chosen, held = found
    return pack_bits(chosen.basis), chosen.to_values(held)


def basis_bytes(margins: Margins) -> int:
    """Bytes of a basis; `WireError` for so many samples that it determines nothing."""
    if not has_few_samples(margins):
        raise WireError(
            f"{margins.sample_count} samples and {margins.dim} columns: expected the whole gram"
        )
    return -(-candidates(margins)[1] // 8)


def read_basis(margins: Margins, data: bytes, per_spare: int = OF_ALL) -> Columns:
    """The columns that the bits of a basis say."""
    basis = unpack_bits(data, candidates(margins)[1])
    if not 0 < basis.sum() <= margins.sample_count:
        raise WireError("the basis does not fit the number of samples")
    return Columns.of(margins, basis, per_spare)


def product_count(margins: Margins) -> int:
    """How many free products a gram has: known before they are unfolded."""
    return int(FreeSums.of(margins).starts[-1])


def read_products(margins: Margins, values: Packed, class_grams: Sequence[Gram] = ()) -> Triangle:
    """The gram that has these free products; `require_whole` checks its form."""
    grams = [gram.packed for gram in class_grams]
    packed = FreeSums.of(margins).restore_gram(values, margins.totals, grams)
    return Triangle.narrow(packed, margins.dim)


def require_whole(statistics: Statistics, per_spare: int = OF_ALL) -> None:
    """Refuse a gram that was sent whole, but should have been sent as columns.

    This takes memory, so readers let go of what was sent before they call it.
    """
    if choose(statistics, per_spare) is not None:
        raise WireError("the gram is not in the form that the format prescribes")


def write_classes(parts: Sequence[Statistics], sections: SectionWriter) -> None:
    """Add the sections of all classes, one after the other."""
    bases, values = zip(*(encode_gram(part, OF_A_CLASS) for part in parts), strict=True)
    few = np.array([basis is not None for basis in bases], np.bool_)
    sections.raw["class_forms"] = pack_bits(few)
    sections.raw["class_basis"] = b"".join(basis for basis in bases if basis is not None)
    sections.write("class_sums", np.concatenate(values))


def read_classes(margins: Margins, sections: SectionReader, limit: int) -> Sequence[Gram]:
    """The gram of each class, unverified but for its form."""
    parts = [margins.of_class(place) for place in range(len(margins.class_names))]
    few = unpack_bits(sections.opened.section("class_forms", -(-len(parts) // 8)), len(parts))
    sizes = [basis_bytes(part) if chosen else 0 for part, chosen in zip(parts, few, strict=True)]
    raw, ends = sections.opened.section("class_basis", sum(sizes)), np.cumsum(sizes)
    found = [
        read_basis(part, raw[end - size : end], OF_A_CLASS) if size else None
        for part, size, end in zip(parts, sizes, ends, strict=True)
    ]
    counts = [
        chosen.value_count if chosen else product_count(part)
        for part, chosen in zip(parts, found, strict=True)
    ]
    container.check_memory(class_bytes(parts, sum(counts)), parts[0].dim, limit)
    values = np.split(sections.read("class_sums", (sum(counts),)), np.cumsum(counts)[:-1])
    grams = [
        chosen.restore(own) if chosen else read_products(part, own)
        for part, chosen, own in zip(parts, found, values, strict=True)
    ]
    del values
    for part, chosen, gram in zip(parts, found, grams, strict=True):
        if not chosen:
            require_whole(part.with_gram(gram), OF_A_CLASS)
    return grams


def class_bytes(parts: Sequence[Margins], values: int) -> int:
    """Most memory that reading the grams of these classes, and multiplying them out, takes."""
    dim, working = parts[0].dim, max(working_bytes(part) for part in parts)
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
