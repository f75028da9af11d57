"""Release: what leaves a site, and which samples can be worked out from it.

The D columns of n samples are vectors of n whole numbers, and the gram tells them but for a
rotation. If they generate all vectors of whole numbers, Z^n, then there is one way to turn them
back, up to the order of the samples: lattice reduction finds it. They can generate Z^n only if at
least n of them are independent, and m more of them do with probability
1 / (zeta(m + 1) ... zeta(m + n)), were they drawn at random. Each way named here was gone:
docs/security.md has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from safle.encoders.features import ClassName
from safle.statistics import Statistics, triangle
from safle.wire.statistics import STATISTICS

if TYPE_CHECKING:
    # Whoever counts needs none of these.
    from safle.encoders.histogram import Histogram
    from safle.evaluation.counts import Evaluation
    from safle.private.round import PrivateRound
    from safle.statistics.value import Sums
    from safle.wire.files import FileKind

FEW = 5
"""Samples below which the sums of a class say much about each of them."""
SPARE = 10
"""Independent columns beyond the samples with which vectors at random generate all of Z^n, but for
one time in a thousand."""
REDUCED = 100
"""Samples that lattice reduction was seen to work out, in minutes: docs/security.md."""


def file_kinds() -> dict[type, FileKind[Any]]:
    """The kind of file for each type of value that leaves a site."""
    from safle.encoders.histogram import Histogram
    from safle.evaluation.counts import EVALUATIONS, Evaluation
    from safle.statistics.noisy import NoisyStatistics
    from safle.wire.histogram import HISTOGRAMS
    from safle.wire.noisy import NOISY

    return {
        Statistics: STATISTICS,
        NoisyStatistics: NOISY,
        Histogram: HISTOGRAMS,
        Evaluation: EVALUATIONS,
    }


def kind_for(value: Sums | Histogram | Evaluation) -> FileKind[Any]:
    """The kind of file that a value is written as."""
    return STATISTICS if isinstance(value, Statistics) else file_kinds()[type(value)]


@dataclass(frozen=True)
class Release:
    """What would leave a site: its sizes, and who could read it.

    Attributes
    ----------
    what : "statistics", "histogram" or "evaluation counts"
    columns : of the gram, or of the features; the classes that samples were scored for
    encoder : fingerprint of what was counted with, or of the evaluated model's; none in a histogram
    gives_away : the samples that can be worked out, in a sentence; empty if we know of none
    masked : whether only a sum with others can be read, and then
    keyholders : who must all help to open it: fingerprints of keys, by name
    least_clients : fewest whose sum is opened
    epsilon : of what is published; infinite where sums are exact
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

    @property
    def mode(self) -> str:
        return "masked" if self.masked else "plain"

    def under_masks(self, private_round: PrivateRound) -> Release:
        """The same, if it leaves for a private round only."""
        keyholders = {name: key.fingerprint for name, key in private_round.keyholders.items()}
        return replace(
            self,
            masked=True,
            gives_away="",
            keyholders=keyholders,
            least_clients=private_round.fewest,
            epsilon=private_round.epsilon,
        )

    @staticmethod
    def of(counted: Statistics | Histogram | Evaluation, encoder: str = "") -> Release:
        """A plain release of what was counted; evaluation counts do not know their ``encoder``."""
        kind, samples, value = kind_for(counted).name, counted.sample_count, cast(Any, counted)
        if kind == "histogram":
            return Release(kind, samples, value.feature_dim)
        names = [*value.class_names, "(unknown)"]
        seen = zip(names, value.class_counts.tolist(), strict=False)
        classes = {name: many for name, many in seen if many}
        if kind == "evaluation counts":
            return Release(kind, samples, len(value.class_names), classes, encoder)
        given_away = name_given_away(value)
        return Release(kind, samples, value.dim, classes, value.fingerprint, given_away)


def disclosures(statistics: Statistics) -> list[str]:
    """What can be worked out, the surest first: sentences, each with a remedy."""
    samples, counts = statistics.sample_count, statistics.class_counts
    single, few = int((counts == 1).sum()), int(((counts > 1) & (counts < FEW)).sum())
    told, apart = count_told_apart(statistics), count_by_class(statistics)
    found = {
        f"classes with one sample: {single:,}. The sums of such a class are that sample, code by "
        "code. Leave it out, or wait until there are more": single,
        f"classes with 2 to {FEW - 1} samples: {few:,}. The sums of such a class are close to each "
        "of them. Leave them out, or wait until there are more": few,
        f"samples with a code that no other has: {told:,} of {samples:,}. The products of that "
        "code are all codes of its sample. Make an encoder whose codes more samples share "
        "(fewer buckets, smaller groups, no rare level or gap), or count more samples": told,
        f"samples of classes with no more of them than columns that are counted by class: "
        f"{apart:,} of {samples:,}. Each of these classes can be worked out by itself. Count more "
        "samples, or do not count by class (by_class)": apart,
        _describe_lattice(statistics, others=bool(single or told or apart)): samples,
    }
    return [text for text, applies in found.items() if applies]


def _describe_lattice(statistics: Statistics, *, others: bool) -> str:
    """What the products of all columns tell of all samples."""
    samples, spare = statistics.sample_count, _spare_columns(statistics)
    size = f"{samples:,} samples, {samples + spare:,} independent columns"
    if spare < 0:
        return (
            f"{size}: with more samples than columns we know no way to work out "
            f"{'the others' if others else 'any of them'}, which does not prove that there is "
            "none. Send it only to a server that you trust"
        )
    known, more = "all of them can be worked out exactly", ""
    if spare < SPARE:
        known = "by chance all of them, some or none can be worked out"
    elif samples > REDUCED:
        known = "the sums determine all of them"
        more = f" Up to {REDUCED} were worked out, in minutes; nobody knows how long more take."
    return (
        f"{size}: {known}, because codes are whole numbers (a lattice).{more} Count more samples, "
        "take fewer columns, add the file to those of others you trust before it leaves, or send "
        "it under masks (a private sum)"
    )


def name_given_away(statistics: Statistics) -> str:
    """The samples that can be worked out, in one sentence; empty if we know of none."""
    samples, spare = statistics.sample_count, _spare_columns(statistics)
    columns = f"there are {samples + spare:,} independent columns"
    if samples and spare >= SPARE:
        if samples <= REDUCED:
            return f"all {samples:,} samples can be worked out exactly: {columns}"
        return f"the sums determine all {samples:,} samples: {columns}"
    single = int((statistics.class_counts == 1).sum())
    if found := max(single, count_told_apart(statistics), count_by_class(statistics)):
        return (
            f"at least {found:,} of {samples:,} samples can be worked out exactly: they have a "
            "class or a code to themselves, or a class of few that is counted by itself"
        )
    if samples and spare >= 0:
        return f"some of {samples:,} samples, or all, can be worked out by chance: {columns}"
    return ""


def _spare_columns(statistics: Statistics) -> int:
    """Independent columns beyond the samples; negative if there are more samples."""
    layout = statistics.layout
    # The codes of an expert add up to one, as a constant column does: all of these are one column.
    equal = layout.experts + len(layout.constants)
    return statistics.dim - max(equal - 1, 0) - statistics.sample_count


def count_by_class(statistics: Statistics) -> int:
    """Samples of classes with no more of them than independent columns of their own gram."""
    parts = statistics.by_class
    return sum(part.sample_count for part in parts if _spare_columns(part) >= 0)


def count_told_apart(statistics: Statistics) -> int:
    """Samples with a code that was seen once: its row of the gram is the sample itself."""
    once = np.flatnonzero(statistics.diagonal[: len(statistics.codes)] == 1)
    # Rows of one sample are equal, and so are their products with numbers drawn at random.
    drawn = np.random.default_rng(0).integers(1, 1 << 30, (statistics.dim, 1), dtype=np.int32)
    return len(np.unique(triangle.multiply(statistics.gram.packed, statistics.dim, drawn)[once]))
