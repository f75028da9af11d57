"""Disclosure: which samples can be worked out from statistics alone, and what helps against it.

Each way named here was gone: docs/security.md has the figures.
"""

from __future__ import annotations

import numpy as np

from safle.statistics import Statistics, triangle

FEW = 5
"""Samples below which the sums of a class say much about each of them."""


def disclosures(statistics: Statistics) -> list[str]:
    """What can be worked out, the surest first: sentences, each with a remedy.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> disclosures(count(encoder, [[0.1, 0.9]], ["ill"]))[0][:25]
    'classes with one sample: '
    """
    samples, dim, counts = statistics.sample_count, statistics.dim, statistics.class_counts
    single, few = int((counts == 1).sum()), int(((counts > 1) & (counts < FEW)).sum())
    told, size = count_told_apart(statistics), f"{samples:,} samples, {dim:,} columns"
    apart = count_by_class(statistics)
    others = "the others" if single or told or apart else "any of them"
    found = {
        f"classes with one sample: {single:,}. The sums of such a class are that sample, code by "
        "code. Leave it out, or wait until there are more": single,
        f"classes with 2 to {FEW - 1} samples: {few:,}. The sums of such a class are close to each "
        "of them. Leave them out, or wait until there are more": few,
        f"samples with a code that no other has: {told:,} of {samples:,}. The products of that "
        "code are all codes of its sample. Make an encoder whose codes more samples share "
        "(--buckets, --group-size of 'safle encoder make'), or count more samples": told,
        f"samples of classes with no more of them than columns that are counted by class: "
        f"{apart:,} of {samples:,}. Each of these classes can be worked out by itself, exactly. "
        "Count more samples, or do not count by class (by_class)": apart,
        f"{size}: with no more samples than columns, all of them can be worked out exactly, "
        "because codes are whole numbers (a lattice). Count more samples, take fewer columns, add "
        "the file to those of others you trust before it leaves, or send it under masks (a private "
        "sum)": 0 < samples <= dim,
        f"{size}: with more samples than columns we know no way to work out {others}, which does "
        "not prove that there is none. Send it only to a server that you trust": samples > dim,
    }
    return [text for text, applies in found.items() if applies]


def name_given_away(statistics: Statistics) -> str:
    """The samples that can be worked out, in one sentence; empty if we know of none."""
    samples, dim = statistics.sample_count, statistics.dim
    if 0 < samples <= dim:
        return (
            f"all {samples:,} samples can be worked out exactly: there are no more of them than "
            f"columns ({dim:,})"
        )
    single = int((statistics.class_counts == 1).sum())
    if found := max(single, count_told_apart(statistics), count_by_class(statistics)):
        return (
            f"at least {found:,} of {samples:,} samples can be worked out exactly: they have a "
            "class or a code to themselves, or a class of few that is counted by itself"
        )
    return ""


def count_by_class(statistics: Statistics) -> int:
    """Samples of classes whose own gram has no fewer columns than they have samples."""
    counts = [part.sample_count for part in statistics.by_class if part.sample_count <= part.dim]
    return sum(counts)


def count_told_apart(statistics: Statistics) -> int:
    """Samples with a code that was seen once: its row of the gram is the sample itself."""
    once = np.flatnonzero(statistics.diagonal[: len(statistics.codes)] == 1)
    # Rows of one sample are equal, and so are their products with numbers drawn at random.
    drawn = np.random.default_rng(0).integers(1, 1 << 30, (statistics.dim, 1), dtype=np.int32)
    return len(np.unique(triangle.multiply(statistics.gram.packed, statistics.dim, drawn)[once]))
