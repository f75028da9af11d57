"""The attack: samples worked out of a plain contribution, exactly, as its receiver could.

It finds samples in three ways, each among those that the ways before it did not find:

- a class of one sample: its column of cross is the sample;
- a code that occurred once: its row of the gram is the sample. Found samples are subtracted from
  the sums, which may leave other classes and codes with one sample (peeling);
- few samples in all, or in one class if every class has a gram, whatever their codes: lattice
  reduction, `safle_lab.lattice`.

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

from safle.basics import atomic
from safle.encoders import Codes
from safle.errors import MissingExtra
from safle.statistics import Statistics
from safle_lab.lattice import AT_ONCE, Residual, common_divisor, reduce_few

MOST_REDUCED = 40
"""Most samples for lattice reduction: 40 take seconds, 100 take minutes."""
FEW = 5
"""Samples below which the sums of a class say much about each of them."""


@dataclass(frozen=True)
class Attack:
    """The samples that the attack found.

    Attributes
    ----------
    samples : number of samples in the statistics
    by_class, by_code, by_lattice : number of samples found exactly, in each of the three ways
    codes, labels : of the found samples, in the order in which they were found
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
    close: int
    untried: int

    @property
    def found(self) -> int:
        """Samples that were worked out exactly."""
        return self.by_class + self.by_code + self.by_lattice

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write codes and labels to a .npz file, a table that `open_table` reads."""
        codes = np.concatenate([self.codes.symbols, self.codes.dense], axis=1)
        labels = np.array(self.labels) if self.labels else np.array([], np.int64)
        with atomic.replacing(path) as scratch, scratch.open("wb") as file:
            np.savez(file, allow_pickle=False, features=codes.astype(np.float32), labels=labels)


def attack(statistics: Statistics, *, most_reduced: int = MOST_REDUCED) -> Attack:
    """Work out samples from statistics.

    Parameters
    ----------
    statistics : a plain contribution
    most_reduced : samples, of a class or in all, that lattice reduction is tried on; it takes
        the longest

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> features = [[0.1, 0.9], [0.4, 0.3], [0.7, 0.5]]
    >>> found = attack(count(encoder, features, ["ill", "well", "well"]))
    >>> found.found, found.by_class
    (3, 1)
    >>> bool((found.codes.dense[0] == encoder.encode(features).dense[0]).all())
    True
    """
    left = Residual.of(statistics, common_divisor(statistics))
    by, tried = _find(left, most_reduced)
    if left.times > 1 and statistics.layout.dense_dim and not left.is_explained():
        # By chance: two samples whose codes are odd in the same columns have even sums.
        left = Residual.of(statistics)
        by, tried = _find(left, most_reduced)
    few = (left.class_counts > 0) & (left.class_counts < FEW)
    owners = np.repeat(left.owners, left.times).tolist()
    return Attack(
        samples=statistics.sample_count,
        by_class=left.times * by["class"],
        by_code=left.times * by["code"],
        by_lattice=left.times * by["lattice"],
        codes=left.codes(),
        labels=tuple(statistics.class_names[owner] for owner in owners),
        close=left.times * int(left.class_counts[few].sum()),
        untried=left.times * _count_untried(left, most_reduced if tried else 0),
    )


def _find(left: Residual, most_reduced: int) -> tuple[dict[str, int], bool]:
    """Subtract the samples found; their number by way, and whether a lattice was tried."""
    by = {"class": 0, "code": 0, "lattice": 0}
    _peel(left, by)
    tried = False
    with contextlib.suppress(MissingExtra):
        for found in _reduce(left, most_reduced):
            by["lattice"] += sum(left.take(*sample) for sample in found)
            tried = True
    return by, tried


def _count_untried(left: Residual, most: int) -> int:
    """Samples in groups of more than ``most``, and no more of them than columns."""
    if most < left.samples <= left.whole.dim:
        return left.samples
    if not left.whole.layout.only_by_class:
        return 0
    pairs = zip(left.class_counts.tolist(), left.whole.by_class, strict=True)
    return sum(own for own, part in pairs if most < own <= part.dim)


def _reduce(left: Residual, most: int) -> Iterator[list[tuple[NDArray[np.int64], int]]]:
    """Samples by lattice reduction: of each class that has all its sums, then of what is left."""
    if left.whole.layout.only_by_class:
        for owner, part in enumerate(left.whole.by_class):
            if 0 < left.class_counts[owner] <= most:
                yield [(row, owner) for row, _ in reduce_few(Residual.of(part, left.times))]
    if 0 < left.samples <= most:
        yield [*reduce_few(left)]


def _peel(left: Residual, by: dict[str, int]) -> None:
    """Find samples that are alone in a class or with a code, until there are none."""
    before = left.samples + 1
    while left.samples < before:
        before = left.samples
        while (single := np.flatnonzero(left.class_counts == 1)).size:
            owner = int(single[0])
            by["class"] += left.take(left.cross[:, owner].copy(), owner)
        for row, owner in _with_own_code(left):
            by["code"] += left.take(row, owner)


def _with_own_code(left: Residual) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Samples with a code that no other has, each once."""
    seen = len(left.whole.codes)
    pending = np.flatnonzero(left.cross[:seen].sum(axis=1) == 1)
    while pending.size:
        chosen, taken = pending[:AT_ONCE], np.zeros(seen, bool)
        owners = left.cross[chosen].argmax(axis=1)
        for code, row, owner in zip(chosen, left.columns(chosen).T, owners, strict=True):
            if not taken[code]:
                taken |= row[:seen] > 0
                taken[code] = True
                yield row, int(owner)
        pending = pending[~taken[pending]]
