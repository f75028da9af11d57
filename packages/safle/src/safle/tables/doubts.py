"""Doubts: what a client's column may be instead of a feature. Only the client reads them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safle.tables.lone import Lone
from safle.tables.schema import NUMBER_ADVICE

if TYPE_CHECKING:
    from polars import Series

MAX_SHARE_OF_TEXTS = 0.1
"""Up to this share, texts seem to be gaps or mistakes in a column of numbers."""
MIN_IDENTIFIERS = 100
"""This many whole numbers, or more, are not all different by chance."""
MIN_PER_VALUE = 5
"""Samples for each value of a column, on average, before it may be called a copy of the label."""
_DAY = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"


def doubt_feature(present: Series) -> str:
    """What a column may be instead of a feature, judged by its present cells; empty if no doubt."""
    distinct = present.n_unique()
    whole = bool(present.str.contains(r"^\d+$").all())
    if whole and present.str.contains(_DAY).all():
        return "holds whole numbers like 20200131; dates? Turn them into an age or a number of days"
    ascending = whole and present.cast(float).is_sorted()
    if whole and distinct == len(present) and (ascending or distinct >= MIN_IDENTIFIERS):
        return (
            "holds whole numbers that are all different; an identifier? --id NAME or --ignore NAME"
        )
    fractions = present.filter(present.str.contains(r"\."))
    others = present.filter(~present.str.contains(r"\."))
    thousands = fractions.str.contains(r"^[1-9]\d{0,2}\.\d{3}$").all()
    if len(fractions) and len(others) and thousands and others.str.contains(r"^\d{1,3}$").all():
        return "has fractions of exactly three digits beside whole numbers; thousands separators?"
    return ""


def describe_few_texts(present: Series) -> str:
    """What to do if nearly all cells are numbers, and a few are not; else empty."""
    is_number = present.cast(float, strict=False).is_finite().fill_null(value=False)
    text_count = int((~is_number).sum())
    if not 0 < text_count <= MAX_SHARE_OF_TEXTS * len(present):
        return ""
    return f"has numbers in all but {text_count:,} of its {len(present):,} cells: {NUMBER_ADVICE}"


def doubt_copy(cells: Series, labels: Sequence[str]) -> str:
    """A doubt if the column has few values, and each occurs with one label only."""
    import polars as pl

    if len(labels) != len(cells):
        return ""
    pairs = pl.DataFrame([cells.alias("cell"), pl.Series("label", labels, pl.String)])
    has_few_values = 1 < cells.n_unique() <= len(cells) / MIN_PER_VALUE
    if not has_few_values or pairs["label"].n_unique() < 2 or pairs.n_unique() > cells.n_unique():
        return ""
    return "determines the label of every sample; a copy of it? --ignore NAME"


def doubt_lone(name: str, lone: Sequence[Lone]) -> str:
    """What lone numbers may be; empty if there are none.

    >>> doubt_lone("chol", [(0.0, 49, 100.0)])[:66]
    'has 49 cells of 0, far from all others (the nearest is 100): a mar'
    """
    if not lone:
        return ""
    found = ", ".join(
        f"{times:,} cells of {value:g}, far from all others (the nearest is {nearest:g})"
        for value, times, nearest in lone
    )
    marks = " ".join(f"--missing {shlex.quote(f'{name}={value:g}')}" for value, _, _ in lone)
    return (
        f"has {found}: a mark of missing values? If so, draft again with {marks}; if not, delete "
        "'lone' of the column in the draft, or the merge asks again"
    )
