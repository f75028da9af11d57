"""Release: what leaves a site, and which samples can be worked out from it.

The D columns of n samples are vectors of n whole numbers, and the gram determines them up to a
rotation. If they generate Z^n, all vectors of n whole numbers, then only one rotation turns them
back, up to the order of the samples: lattice reduction finds it. They can generate Z^n only if at
least n of them are independent; n + m columns drawn at random do so with probability
1 / (zeta(m + 1) ... zeta(m + n)). We have tried every attack named here: docs/security.md has the
figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from safle.encoders.features import ClassName
from safle.encoders.histogram import Histogram
from safle.evaluation.counts import EVALUATIONS, Evaluation
from safle.statistics import Statistics
from safle.statistics.noisy import NoisyStatistics
from safle.wire.files import FileType
from safle.wire.histogram import HISTOGRAMS
from safle.wire.noisy import NOISY
from safle.wire.statistics import STATISTICS

if TYPE_CHECKING:
    from safle.private.round import PrivateRound

Countable = Statistics | Histogram | Evaluation
FILE_TYPE_OF: dict[type, FileType[Any]] = {
    Statistics: STATISTICS,
    NoisyStatistics: NOISY,
    Histogram: HISTOGRAMS,
    Evaluation: EVALUATIONS,
}
"""The type of file that a value of each type is written as."""
FEW_SAMPLES = 5
"""The sums of a class with fewer samples say much about each of them."""
SPARE_COLUMNS = 10
"""With this many more independent columns than samples, random columns generate Z^n in all but one
of a thousand cases."""
SAMPLES_REDUCED = 100
"""Lattice reduction has worked out this many samples, in minutes: docs/security.md."""
CLASSES_OF_FEW = (
    f"classes with fewer than {FEW_SAMPLES} samples: {{few:,}}, with one: {{single:,}}. The sums "
    "of a class of one are that sample, code by code, and those of few are close to each of "
    "them. Leave such classes out, or wait until there are more"
)
CODES_OF_ONE = (
    "samples with a code that no other has: {found:,} of {samples:,}. The products of that code "
    "are all codes of its sample. Make an encoder whose codes more samples share (fewer buckets, "
    "smaller groups, no rare level or gap), or count more samples"
)
COUNTED_BY_CLASS = (
    "samples of classes with no more of them than columns that are counted by class: {found:,} of "
    "{samples:,}. Each of these classes can be worked out by itself. Count more samples, or do not "
    "count by class (by_class)"
)
LATTICE = (
    f", and codes are whole numbers (a lattice). Up to {SAMPLES_REDUCED} samples were worked out, "
    "in minutes; nobody knows how long more take. Count more samples, take fewer columns, add the "
    "file to those of others you trust before it leaves, or send it under masks (a private sum)"
)
MORE_THAN_COLUMNS = (
    "with more samples than columns we know no way to work out {which}, which does not prove that "
    "there is none. Send it only to a server that you trust"
)
SOME_SAMPLES = (
    "at least {found:,} of {samples:,} samples can be worked out exactly: they have a class or a "
    "code to themselves, or a class of few that is counted by itself"
)


@dataclass(frozen=True)
class Release:
    """What would leave a site: its sizes, and who could read it.

    Attributes
    ----------
    what : "statistics", "histogram" or "evaluation counts"
    samples, class_counts : in the file; a sample of weight w is w samples
    columns : of statistics; a histogram's features; the classes of evaluation counts
    encoder : fingerprint of the encoder, or of the evaluated model's; empty for a histogram
    gives_away : the samples that can be worked out, in a sentence; empty if we know of none
    masked : whether only a sum with others can be read
    keyholders : those who must all help to open a masked sum: fingerprints of keys, by name
    least_clients : fewest clients whose masked sum is opened
    epsilon : of what is published; infinite where sums are exact
    distinct_rows : the same with each different row counted once, whose numbers a policy judges;
        None if no sample has a weight and no row repeats another
    """

    what: str
    samples: int
    columns: int
    class_counts: Mapping[ClassName, int] = field(default_factory=dict)
    encoder: str = ""
    gives_away: str = ""
    masked: bool = False
    keyholders: Mapping[str, str] = field(default_factory=dict)
    least_clients: int = 1
    epsilon: float = math.inf
    distinct_rows: Release | None = None

    @property
    def mode(self) -> str:
        return "masked" if self.masked else "plain"

    def under_masks(self, private_round: PrivateRound) -> Release:
        """The same release, masked for a private round."""
        keyholders = {name: key.fingerprint for name, key in private_round.keyholders.items()}
        return replace(
            self,
            masked=True,
            gives_away="",
            keyholders=keyholders,
            least_clients=private_round.least_clients,
            epsilon=private_round.epsilon,
        )

    @staticmethod
    def of(
        counted: Countable, encoder: str = "", distinct_rows: Countable | None = None
    ) -> Release:
        """A plain release of ``counted``; evaluation counts do not hold their ``encoder``.

        ``distinct_rows`` are the same counts with each different row counted once, if they differ.
        """
        if distinct_rows is not None and distinct_rows is not counted:
            rows = Release.of(distinct_rows, encoder)
            return replace(
                rows,
                samples=counted.sample_count,
                class_counts=_count_classes(counted),
                distinct_rows=rows,
            )
        file_type, samples = FILE_TYPE_OF[type(counted)].name, counted.sample_count
        if isinstance(counted, Histogram):
            return Release(file_type, samples, counted.feature_dim)
        classes = _count_classes(counted)
        if isinstance(counted, Evaluation):
            return Release(file_type, samples, len(counted.class_names), classes, encoder)
        gives_away = find_exposure(counted).summary
        return Release(file_type, samples, counted.dim, classes, counted.fingerprint, gives_away)


def _count_classes(counted: Countable) -> dict[ClassName, int]:
    if isinstance(counted, Histogram):
        return {}
    names = [*counted.class_names, "(unknown)"]
    counts = zip(names, counted.class_counts.tolist(), strict=False)
    return {name: count for name, count in counts if count}


class Exposure(NamedTuple):
    """Which samples can be worked out from a client's statistics, as far as we know.

    Attributes
    ----------
    summary : in one sentence; empty if we know of no way
    details : sentences, each with a remedy; the surest first
    """

    summary: str
    details: list[str]


def find_exposure(statistics: Statistics) -> Exposure:
    """Find the samples that can be worked out from statistics."""
    samples, counts = statistics.sample_count, statistics.class_counts
    if not samples:
        return Exposure("", [])
    lattice = _describe_lattice(statistics)
    few, single = int(((counts > 0) & (counts < FEW_SAMPLES)).sum()), int((counts == 1).sum())
    own_codes, by_class = count_own_codes(statistics), _count_by_class(statistics)
    sure = max(single, own_codes, by_class)
    details = []
    if few:
        details.append(CLASSES_OF_FEW.format(few=few, single=single))
    if own_codes:
        details.append(CODES_OF_ONE.format(found=own_codes, samples=samples))
    if by_class:
        details.append(COUNTED_BY_CLASS.format(found=by_class, samples=samples))
    if lattice:
        details.append(lattice + LATTICE)
    else:
        details.append(MORE_THAN_COLUMNS.format(which="the others" if sure else "any of them"))
    if sure and _spare_columns(statistics) < SPARE_COLUMNS:
        return Exposure(SOME_SAMPLES.format(found=sure, samples=samples), details)
    return Exposure(lattice, details)


def _describe_lattice(statistics: Statistics) -> str:
    """What the gram of all columns gives away of all samples; empty if nothing."""
    samples, spare = statistics.sample_count, _spare_columns(statistics)
    columns = f"there are {samples + spare:,} independent columns"
    if spare < 0:
        return ""
    if spare < SPARE_COLUMNS:
        return f"some of {samples:,} samples, or all, can be worked out by chance: {columns}"
    if samples <= SAMPLES_REDUCED:
        return f"all {samples:,} samples can be worked out exactly: {columns}"
    return f"the sums determine all {samples:,} samples: {columns}"


def _spare_columns(statistics: Statistics) -> int:
    """Independent columns beyond the samples; negative if there are more samples."""
    layout = statistics.layout
    # The columns of each expert add up to the constant column: these sums are one column.
    constant = layout.experts + len(layout.constants)
    return statistics.dim - max(constant - 1, 0) - statistics.sample_count


def _count_by_class(statistics: Statistics) -> int:
    """Samples of classes that have no more samples than their own gram has independent columns."""
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
