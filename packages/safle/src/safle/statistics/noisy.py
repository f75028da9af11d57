"""Noisy statistics: sums that may be published, over the whole layout and all declared classes.

Noise goes to the columns from which all others follow: not to constants (they repeat the class
sums), nor to one code per expert (an expert's codes sum to one), nor to what is zero or a repeat
by design (products of codes of one expert). The rest is worked out from them, so that what the
solver relies on holds of noisy sums as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.encoders.made import Made
from safle.errors import CountOverflow, InvalidInput
from safle.statistics.privacy import Privacy
from safle.statistics.value import Statistics

MOST = 1 << 61
Integers = NDArray[np.int64]


class Released(NamedTuple):
    """The free sums: what gets noise, and what all the rest follows from.

    Attributes
    ----------
    gram : (free, free), symmetric, zero where `FreeColumns.pairs` has nothing to release
    cross : (free, class_count)
    counts : (class_count,)
    """

    gram: Integers
    cross: Integers
    counts: Integers


@dataclass(frozen=True)
class FreeColumns:
    """The columns of a layout from which all others follow: constants and first codes do.

    >>> FreeColumns(Layout((3, 2), (64, 64), ((0, 9), (64, 64)))).places.tolist()
    [1, 2, 4, 5]
    """

    layout: Layout

    @cached_property
    def places(self) -> Integers:
        """Their numbers among all columns, (free,)."""
        codes, constants = self.layout.code_count, np.array(self.layout.constants, np.int64)
        followers = np.concatenate([self.layout.bases[:-1], codes + constants])
        return np.setdiff1d(np.arange(self.layout.embedding_dim), followers)

    @cached_property
    def owners(self) -> Integers:
        """The expert of each, or -1 for a dense one, (free,)."""
        experts = np.searchsorted(self.layout.bases, self.places, side="right") - 1
        return np.where(self.places < self.layout.code_count, experts, -1)

    @cached_property
    def scales(self) -> Integers:
        """Codes per real unit of each, (free,)."""
        dense = np.array(self.layout.dense_scales, np.int64)
        scales = np.concatenate([np.ones(self.layout.code_count, np.int64), dense])
        return scales[self.places]

    @cached_property
    def pairs(self) -> NDArray[np.bool_]:
        """Which entries of the gram are free, (free, free), upper triangle."""
        _require(self.layout)
        dense = self.owners < 0
        apart = (self.owners[:, None] != self.owners) | dense[:, None]
        return np.triu(apart)

    def take(self, statistics: Statistics, classes: Sequence[ClassName]) -> Released:
        """The free sums of statistics of (some of) these classes; zeros of what did not occur."""
        _require(self.layout)
        dim = self.layout.embedding_dim
        rows = np.concatenate([statistics.codes, np.arange(self.layout.code_count, dim)])
        place = {name: at for at, name in enumerate(classes)}
        at = np.array([place[name] for name in statistics.class_names], np.int64)
        gram, cross = np.zeros((dim, dim), np.int64), np.zeros((dim, len(classes)), np.int64)
        counts = np.zeros(len(classes), np.int64)
        gram[np.ix_(rows, rows)] = statistics.gram_square()
        cross[np.ix_(rows, at)] = statistics.cross
        counts[at] = statistics.class_counts
        free = gram[np.ix_(self.places, self.places)]
        return Released(self.mirror(np.where(self.pairs, free, 0)), cross[self.places], counts)

    @staticmethod
    def mirror(upper: Integers) -> Integers:
        """The symmetric matrix of an upper triangle."""
        return upper + np.triu(upper, 1).T

    def expand(self, free: Integers, ones: Integers) -> Integers:
        """All rows, (embedding_dim, width), from the free ones and that of the number 1."""
        layout, rows = self.layout, np.empty((self.layout.embedding_dim, free.shape[1]), np.int64)
        rows[self.places] = free
        for first, end in zip(layout.bases[:-1], layout.bases[1:], strict=True):
            rows[first] = ones - rows[first + 1 : end].sum(axis=0)
        for column in layout.constants:
            rows[layout.code_count + column] = layout.dense_scales[column] * ones
        return rows


@dataclass(frozen=True, eq=False, repr=False)
class NoisyStatistics(Statistics):
    """Sums with noise, and what the noise promises: to solve and to publish, not to add.

    Examples
    --------
    See `safle.publishing.publishing.publish`, which makes them.
    """

    privacy: Privacy = field(kw_only=True)

    @staticmethod
    def of(
        made: Made, classes: Sequence[ClassName], released: Released, privacy: Privacy
    ) -> NoisyStatistics:
        """All sums from the free ones; a class has at least one sample, whatever the noise."""
        layout, free = made.layout, FreeColumns(made.layout)
        _check_sizes(layout, released)
        counts = np.maximum(released.counts, 1)
        totals, codes = released.cross.sum(axis=1), free.owners >= 0
        gram = released.gram.copy()
        # The square of a code is the code.
        gram[codes, codes] = totals[codes]
        ones = np.append(totals, counts.sum())
        half = free.expand(np.column_stack([gram, totals]), ones)
        whole = free.expand(np.ascontiguousarray(half[:, :-1].T), half[:, -1])
        return NoisyStatistics(
            made.fingerprint,
            layout,
            np.arange(layout.code_count),
            free.expand(released.cross, counts),
            tuple(classes),
            counts,
            whole[np.triu(np.ones(whole.shape, np.bool_))],
            privacy=privacy,
        )

    @cached_property
    def released(self) -> Released:
        """The free sums, as they travel."""
        return FreeColumns(self.layout).take(self, self.class_names)

    def require_exact(self) -> NoReturn:
        """Noisy sums are of no data set: they are neither verified nor added."""
        raise InvalidInput(
            "noisy statistics are for solving: they are the sums of no samples, and are neither "
            "verified nor added; add up exact contributions, and publish their sum"
        )

    verify = require_exact

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NoisyStatistics)
            and self.privacy == other.privacy
            and super().__eq__(other)
        )

    __hash__ = None

    def __repr__(self) -> str:
        return (
            super().__repr__().replace("<Statistics", f"<NoisyStatistics ({self.privacy.promise})")
        )


def _check_sizes(layout: Layout, released: Released) -> None:
    """Refuse sums so large that what follows from them would wrap."""
    table, scale = max(layout.table_sizes, default=1), max(layout.dense_scales, default=1)
    classes = max(1, len(released.counts))
    growths = table**2, classes * scale * table**2, classes * scale**2 * table**2
    for name, sums, growth in zip(Released._fields, released, growths, strict=True):
        # In Python's integers: the least of 64 bits has no absolute value in them.
        largest = max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
        if largest > MOST // growth:
            raise CountOverflow(f"{name} has a sum of {largest}; at most {MOST // growth} is used")


def noisy_bytes(layout: Layout) -> int:
    """Memory that noisy statistics take while they are made: a few whole squares."""
    return 4 * 8 * layout.embedding_dim**2


def _require(layout: Layout) -> None:
    require(
        noisy_bytes(layout),
        purpose=f"noise for the products of {layout.embedding_dim:,} columns",
        advice="publish sums of a small linear encoder: noise grows with the columns anyway",
    )
