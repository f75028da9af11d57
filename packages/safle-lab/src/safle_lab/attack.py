"""The attack: samples reconstructed from a plain contribution, exactly, as its receiver could.

It finds samples in four ways, each among the samples that the earlier ways did not find:

- a class of one sample: its column of cross is the sample;
- a code that occurred once: its row of the gram is the sample. Found samples are subtracted from
  the sums, which may leave other classes and codes with one sample (peeling);
- a small number of samples, in all or (if every class has a gram) in one class: lattice reduction,
  `safle_lab.lattice`, finds them with any codes;
- where there are symbols only, cells of few samples, joined: `safle.statistics.join_cells`; the
  class of these samples is not always certain.

All sums are first divided by their common divisor: it is 3 if a table holds every row three
times. Only sums are used, so every kind of encoder is attacked alike.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from safle import Accumulator, Codes, Statistics, count_codes, join_cells
from safle.basics import atomic
from safle.errors import MissingExtra
from safle_lab.lattice import COLUMNS_AT_ONCE, Residual, common_divisor, find_by_lattice

MOST_REDUCED = 40
"""Most samples for lattice reduction: 40 take seconds, 100 take minutes."""
UNKNOWN = "(not certain)"
"""The label of found samples whose class is not certain."""
SMALL_CLASS = 5
"""The sums of a class with fewer samples say much about each sample."""


@dataclass(frozen=True)
class Attack:
    """The samples that the attack found.

    Attributes
    ----------
    samples : number of samples in the statistics
    by_class, by_code, by_join, by_lattice : number of samples found exactly, in each of the ways
    codes, labels : of the found samples, in the order in which they were found
    unlabelled : codes of more samples, whose class is not certain
    close : samples not found, in classes so small that the class mean is close to each of them
    untried : samples that lattice reduction would usually find, but was not tried on: they are too
        many, or its package is missing
    """

    samples: int
    by_class: int
    by_code: int
    by_lattice: int
    codes: Codes = field(repr=False)
    labels: tuple[int | str, ...] = field(repr=False)
    by_join: int
    unlabelled: Codes = field(repr=False)
    close: int
    untried: int

    @property
    def found(self) -> int:
        """Samples that were reconstructed exactly."""
        return self.by_class + self.by_code + self.by_join + self.by_lattice

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write codes and labels to a .npz file, a table that `open_table` reads."""
        both = (self.codes, self.unlabelled)
        parts = [np.concatenate([part.symbols, part.dense], axis=1) for part in both]
        codes = np.concatenate(parts)
        labels = np.array(self.labels) if self.labels else np.array([], np.int64)
        if len(self.unlabelled):
            unknown = np.full(len(self.unlabelled), UNKNOWN)
            labels = np.concatenate([labels.astype(str), unknown])
        with atomic.replacing(path) as scratch, scratch.open("wb") as file:
            np.savez(file, allow_pickle=False, features=codes.astype(np.float32), labels=labels)


def attack(statistics: Statistics, *, most_reduced: int = MOST_REDUCED) -> Attack:
    """Reconstruct samples from statistics.

    Parameters
    ----------
    statistics : a plain contribution
    most_reduced : samples, of a class or in all, that lattice reduction is tried on; it takes
        the longest

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=2))
    >>> features = [[0.1, 0.9], [0.4, 0.3], [0.7, 0.5]]
    >>> result = attack(count(encoder, features, ["ill", "well", "well"]))
    >>> result.found, result.by_class
    (3, 1)
    >>> bool((result.codes.dense[0] == encoder.encode(features).dense[0]).all())
    True
    """
    residual = Residual.of(statistics, common_divisor(statistics))
    found_by, tried, unlabelled = _find(residual, most_reduced)
    if residual.times > 1 and statistics.layout.dense_dim and not residual.is_explained():
        # The divisor was chance: two samples that are odd in the same columns have even sums.
        residual = Residual.of(statistics)
        found_by, tried, unlabelled = _find(residual, most_reduced)
    in_small_class = (residual.class_counts > 0) & (residual.class_counts < SMALL_CLASS)
    untried = _count_untried(residual, most_reduced if tried else 0)
    owners = np.repeat(residual.owners, residual.times).tolist()
    return Attack(
        samples=statistics.sample_count,
        by_class=residual.times * found_by["class"],
        by_code=residual.times * found_by["code"],
        by_join=residual.times * found_by["join"],
        by_lattice=residual.times * found_by["lattice"],
        codes=residual.codes(),
        unlabelled=unlabelled,
        labels=tuple(statistics.class_names[owner] for owner in owners),
        close=residual.times * int(residual.class_counts[in_small_class].sum()),
        untried=max(residual.times * untried - len(unlabelled), 0),
    )


def _find(residual: Residual, most_reduced: int) -> tuple[dict[str, int], bool, Codes]:
    """Subtract the samples found; return their number by way, and whether reduction was tried.

    Last, the codes of more samples, whose class is not certain.
    """
    found_by = {"class": 0, "code": 0, "join": 0, "lattice": 0}
    _peel(residual, found_by)
    tried = False
    with contextlib.suppress(MissingExtra):
        for found in _reduce(residual, most_reduced):
            found_by["lattice"] += sum(residual.take(*sample) for sample in found)
            tried = True
    return found_by, tried, _join(residual, found_by)


def _join(residual: Residual, found_by: dict[str, int]) -> Codes:
    """Take samples that cells of few samples give; return the codes of those without a class."""
    whole, layout = residual.whole, residual.whole.layout
    known = residual.codes()
    if layout.dense_dim or residual.times > 1 or not residual.samples:
        return Codes(known.symbols[:0], known.dense[:0])
    rest = whole
    if len(known):
        total = Accumulator(whole.space)
        labels = np.array([whole.class_names[owner] for owner in residual.owners])
        total.add(whole)
        total.subtract(count_codes(whole.space, known, labels))
        rest = total.snapshot()
    joined, owners = join_cells(rest)
    if joined.shape[1] < layout.experts:
        return Codes(known.symbols[:0], known.dense[:0])
    places = np.searchsorted(whole.codes, rest.codes[joined])
    names = [whole.class_names.index(name) for name in rest.class_names]
    for symbols, owner in zip(places, owners.tolist(), strict=True):
        if owner >= 0:
            row = np.zeros(whole.dim, np.int64)
            row[symbols] = 1
            found_by["join"] += residual.take(row, names[owner])
    others = whole.codes[places[owners < 0]] - layout.bases[:-1]
    return Codes(others.astype(layout.symbol_type), np.empty((len(others), 0), np.int16))


def _count_untried(residual: Residual, most: int) -> int:
    """The number of samples in groups larger than ``most`` but not larger than the columns."""
    if most < residual.samples <= residual.whole.dim:
        return residual.samples
    if not residual.whole.layout.only_classes:
        return 0
    pairs = zip(residual.class_counts.tolist(), residual.whole.by_class, strict=True)
    return sum(count for count, part in pairs if most < count <= part.dim)


def _reduce(residual: Residual, most: int) -> Iterator[list[tuple[NDArray[np.int64], int]]]:
    """Samples by lattice reduction: of each class that has a gram, then of all classes."""
    if residual.whole.layout.only_classes:
        for owner, part in enumerate(residual.whole.by_class):
            if 0 < residual.class_counts[owner] <= most:
                yield [
                    (row, owner) for row, _ in find_by_lattice(Residual.of(part, residual.times))
                ]
    if 0 < residual.samples <= most:
        yield [*find_by_lattice(residual)]


def _peel(residual: Residual, found_by: dict[str, int]) -> None:
    """Take samples that are alone in a class or with a code, until none is alone."""
    before = residual.samples + 1
    while residual.samples < before:
        before = residual.samples
        while (single := np.flatnonzero(residual.class_counts == 1)).size:
            owner = int(single[0])
            found_by["class"] += residual.take(residual.cross[:, owner].copy(), owner)
        for row, owner in _find_by_code(residual):
            found_by["code"] += residual.take(row, owner)


def _find_by_code(residual: Residual) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield every sample with a code that no other sample has, once."""
    code_count = len(residual.whole.codes)
    pending = np.flatnonzero(residual.cross[:code_count].sum(axis=1) == 1)
    while pending.size:
        chosen, taken = pending[:COLUMNS_AT_ONCE], np.zeros(code_count, bool)
        owners = residual.cross[chosen].argmax(axis=1)
        for code, row, owner in zip(chosen, residual.columns(chosen).T, owners, strict=True):
            if not taken[code]:
                taken |= row[:code_count] > 0
                taken[code] = True
                yield row, int(owner)
        pending = pending[~taken[pending]]
