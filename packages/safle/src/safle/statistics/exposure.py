"""Exposure: which samples can be reconstructed from plain statistics, and by an attack that is run.

The D columns of n samples are vectors of n whole numbers, and the gram determines them up to a
rotation. If they generate Z^n, all vectors of n whole numbers, then only one rotation turns them
back, up to the order of the samples: lattice reduction finds it. They can generate Z^n only if at
least n of them are independent; n + m columns drawn at random do so with probability
1 / (zeta(m + 1) ... zeta(m + n)). We have tried every attack named here: docs/security.md has the
figures. Where symbols are counted, `safle.statistics.join_cells` is run, and its result is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.statistics.cells import LEAST_CELL, Cells, count_cells, independent_columns
from safle.statistics.join import join_cells
from safle.statistics.statistics import Statistics

FEW_SAMPLES = 5
"""The sums of a class with fewer samples say much about each of them."""
SPARE_COLUMNS = 10
"""With this many more independent columns than samples, random columns generate Z^n in all but one
of a thousand cases."""
SAMPLES_REDUCED = 100
"""Lattice reduction has reconstructed this many samples, in minutes: docs/security.md."""
CLASSES_OF_FEW = (
    f"classes with fewer than {FEW_SAMPLES} samples: {{few:,}}, with one: {{single:,}}. The sums "
    "of a class with one sample are that sample, code by code; those of a class with few are "
    "close to each of them. Leave such classes out, or wait until there are more"
)
CODES_OF_ONE = (
    "samples with a code that no other sample has: {found:,} of {samples:,}. The products of that "
    "code are all codes of its sample. Make an encoder whose codes more samples share (fewer "
    "buckets, smaller groups, no rare level or gap), or count more samples"
)
CELLS_OF_FEW = (
    "samples that follow from counts of pairs of symbols: {found:,} of {samples:,}. A pair "
    "that few samples have names each of them, and such pairs can be joined. Make an encoder whose "
    "pairs of codes more samples share (fewer buckets, smaller groups), or count more samples"
)
COUNTED_BY_CLASS = (
    "samples of classes with at most as many samples as columns that are counted by class: "
    "{found:,} of {samples:,}. Each of these classes can be reconstructed by itself. Count more "
    "samples, or do not count by class (by_class)"
)
LATTICE = (
    f", and codes are whole numbers (a lattice). Up to {SAMPLES_REDUCED} samples were "
    "reconstructed, in minutes; nobody knows how long more take. Count more samples, take fewer "
    "columns, add the file to those of others you trust before it leaves, or send it under masks "
    "(a private sum)"
)
MORE_THAN_COLUMNS = (
    "with more samples than columns we know no way to reconstruct {which}, which does not prove "
    "that nobody can. Send it only to a server that you trust"
)
ATTACKED = (
    "a holder of this file can reconstruct samples; the attack that we ran reconstructed "
    "{found:,} of {samples:,}"
)
NOT_ATTACKED = (
    "a holder of this file can reconstruct samples; we have no attack to run on it, and it holds "
    "{cells}"
)
JOINED_IN_PART = "the attack joined the symbols of {tables:,} of {all_tables:,} tables"
CELLS = "{occupied:,} counts, {below:,} of them of fewer than {least} samples"


class Exposure(NamedTuple):
    """What a client's plain file gives away, as far as we know.

    Attributes
    ----------
    samples : how many are counted
    reconstructed : how many of them the attack that we ran has reconstructed; None if we ran none
    cells : the sums that are counts
    rank : independent columns of statistics; 0 for all else
    lattice : what the products of all columns determine, in words; empty if nothing
    details : a sentence per way in which samples can be reconstructed, and what helps
    """

    samples: int
    reconstructed: int | None
    cells: Cells
    rank: int = 0
    lattice: str = ""
    details: Sequence[str] = ()

    @property
    def summary(self) -> str:
        """What a holder of the file can do; empty without samples."""
        if not self.samples:
            return ""
        if self.reconstructed is None:
            return NOT_ATTACKED.format(cells=describe_cells(self.cells))
        attacked = ATTACKED.format(found=self.reconstructed, samples=self.samples)
        return f"{attacked}; {self.lattice}" if self.lattice else attacked

    @property
    def warns(self) -> bool:
        """Whether samples were reconstructed, are at most as many as columns, or cells small."""
        if self.reconstructed is None:
            return self.cells.below > 0
        return self.reconstructed > 0 or bool(self.lattice)


def find_exposure(statistics: Statistics) -> Exposure:
    """Attack statistics, and say what else is known about them."""
    samples = statistics.sample_count
    counts = statistics.class_counts
    cells = count_cells(statistics.cells)
    if not samples:
        return Exposure(0, 0, cells, details=[])
    few = int(((counts > 0) & (counts < FEW_SAMPLES)).sum())
    single = int((counts == 1).sum())
    own_codes = count_own_codes(statistics)
    by_class = _count_by_class(statistics)
    symbols, _ = join_cells(statistics)
    joined, tables = symbols.shape
    found = max(single, own_codes, joined)
    details = []
    if few:
        details.append(CLASSES_OF_FEW.format(few=few, single=single))
    if own_codes:
        details.append(CODES_OF_ONE.format(found=own_codes, samples=samples))
    if joined > max(own_codes, single):
        details.append(CELLS_OF_FEW.format(found=joined, samples=samples))
    if tables < statistics.layout.experts:
        all_tables = statistics.layout.experts
        details.append(JOINED_IN_PART.format(tables=tables, all_tables=all_tables))
    if by_class:
        details.append(COUNTED_BY_CLASS.format(found=by_class, samples=samples))
    lattice = _describe_lattice(statistics)
    which = "the others" if max(found, by_class) else "any of them"
    details.append(lattice + LATTICE if lattice else MORE_THAN_COLUMNS.format(which=which))
    return Exposure(samples, found, cells, independent_columns(statistics), lattice, details)


def expose_cells(samples: int, tables: Iterable[NDArray[Any]]) -> Exposure:
    """The exposure of a value that we have no attack for: its counts alone."""
    return Exposure(samples, None, count_cells(tables))


def describe_cells(cells: Cells) -> str:
    """How many cells there are, and how many of them have few samples."""
    return CELLS.format(occupied=cells.occupied, below=cells.below, least=LEAST_CELL)


def _describe_lattice(statistics: Statistics) -> str:
    """What the gram of all columns gives away of all samples; empty if nothing."""
    samples = statistics.sample_count
    spare = _spare_columns(statistics)
    columns = f"there are {samples + spare:,} independent columns"
    if spare < 0:
        return ""
    if spare < SPARE_COLUMNS:
        return f"some of {samples:,} samples, or all, can be reconstructed by chance: {columns}"
    if samples <= SAMPLES_REDUCED:
        return f"all {samples:,} samples can be reconstructed exactly: {columns}"
    return f"the sums determine all {samples:,} samples: {columns}"


def _spare_columns(statistics: Statistics) -> int:
    """Independent columns beyond the samples; negative if there are more samples."""
    return independent_columns(statistics) - statistics.sample_count


def _count_by_class(statistics: Statistics) -> int:
    """Samples of classes with at most as many samples as independent columns in their own gram."""
    parts = statistics.by_class
    return sum(part.sample_count for part in parts if _spare_columns(part) >= 0)


def count_own_codes(statistics: Statistics) -> int:
    """Number of samples with a code that no other has: its row of the gram is the sample itself."""
    once = np.flatnonzero(statistics.diagonal[: len(statistics.codes)] == 1)
    if not len(once):
        return 0
    # Rows of one sample are equal, and so are their products with random whole numbers, which are
    # small enough that these products are exact.
    drawn = np.random.default_rng(0).integers(1, 1 << 24, (statistics.dim, 2))
    return len(np.unique(statistics.gram.multiply(drawn.astype(np.float64))[once], axis=0))
