"""Doubts: what a client's column may be instead of a feature. Only the client reads them.

A lone number is far from all others of its column, as marks of missing values are: a table writes
-9, 99 or 999 where nothing was measured, or 0 where a living person has no 0. Such a value lies at
one end of its column, and a gap separates it from all others. How wide the gap must be depends on
the value: a usual mark is suspected sooner than any other number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from safle.tables.schema import NUMBER_ADVICE

if TYPE_CHECKING:
    from polars import Series

MAX_SHARE_OF_TEXTS = 0.1
"""Up to this share, texts seem to be gaps or mistakes in a column of numbers."""
MIN_IDENTIFIERS = 100
"""This many whole numbers, or more, are not all different by chance."""
MIN_PER_VALUE = 5
"""Samples for each value of a column, on average, before it may be called a copy of the label."""
MAX_MARKS = 3
"""Most marks at one end, as 777, 888 and 999 are."""
MIN_REST = 10
"""Fewer other values than this are codes, and one end of codes may lie apart."""
MIN_SHARE_OF_MARKS = 0.03
"""From this share of the cells on, any value may be a mark; a true outlier is rarer."""
_USUAL_MARK = re.compile(r"9*[789]|7{2,}|8{2,}")
"""9, 99, 998, 77, 888 and the like, without a sign or a point."""
Lone = tuple[float, int, float]
"""A lone value, in how many cells it is, and the value nearest to it."""
_DAY = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"


def find_doubt(
    name: str, cells: Series, present: Series, labels: Sequence[str], lone: Sequence[Lone]
) -> str:
    """What a drafted column may be instead, by the first check that finds something."""
    return doubt_feature(present) or doubt_copy(cells, labels) or doubt_lone(name, lone)


def doubt_feature(present: Series) -> str:
    """What a column may be instead of a feature, judged by its present cells; empty if no doubt."""
    distinct = present.n_unique()
    whole = bool(present.str.contains(r"^\d+$").all())
    if whole and present.str.contains(_DAY).all():
        return (
            "holds whole numbers like 20200131: are they dates? Turn them into an age or a number "
            "of days"
        )
    ascending = whole and present.cast(float).is_sorted()
    if whole and distinct == len(present) and (ascending or distinct >= MIN_IDENTIFIERS):
        return (
            "holds whole numbers that are all different: is it an identifier? --id NAME or "
            "--ignore NAME"
        )
    fractions = present.filter(present.str.contains(r"\."))
    others = present.filter(~present.str.contains(r"\."))
    thousands = fractions.str.contains(r"^[1-9]\d{0,2}\.\d{3}$").all()
    if len(fractions) and len(others) and thousands and others.str.contains(r"^\d{1,3}$").all():
        return (
            "has fractions of exactly three digits beside whole numbers: are the points thousands "
            "separators?"
        )
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
    return "determines the label of every sample: is it a copy of the label? --ignore NAME"


def _is_usual_mark(value: float) -> bool:
    """Whether tables often write this number where nothing was measured."""
    digits = f"{abs(value):.12g}".replace(".", "")
    return value in (0, -1) or _USUAL_MARK.fullmatch(digits) is not None


def find_lone(values: NDArray[np.float64], least: int) -> list[Lone]:
    """The lone values of a column, both ends; one in fewer than ``least`` cells must lie far off.

    >>> ages = np.array([*range(31, 78)] * 2 + [-9] * 12, float)
    >>> find_lone(ages, least=5)
    [(-9.0, 12, 31.0)]
    """
    distinct, times = np.unique(values, return_counts=True)
    found: list[Lone] = []
    for sign in (1, -1):
        # The high end of a column is the low end of its negative.
        ordered = np.sort(sign * distinct)
        counts = times[:: int(sign)]
        size = _lone_at_low_end(ordered, counts, sign, least)
        nearest = sign * float(ordered[size]) if size else 0.0
        found += [(sign * float(ordered[at]), int(counts[at]), nearest) for at in range(size)]
    return found


def _lone_at_low_end(
    ordered: NDArray[np.float64], times: NDArray[np.int64], sign: int, least: int
) -> int:
    """How many of the lowest values are lone, of different values times ``sign``."""
    for size in range(min(MAX_MARKS, len(ordered) - 2), 0, -1):
        rest = ordered[size:]
        gap = float(rest[0] - ordered[size - 1])
        has_codes = len(rest) < MIN_REST
        ends = np.quantile(np.repeat(rest, times[size:]), [0.05, 0.95])
        width = float(rest[-1] - rest[0]) if has_codes else float(ends[1] - ends[0])
        are_usual = all(_is_usual_mark(sign * float(value)) for value in ordered[:size])
        fewest = int(times[:size].min())
        alone_below_zero = sign == 1 and ordered[size - 1] < 0 <= rest[0] and not has_codes
        often = fewest >= least
        very_often = fewest >= max(least, MIN_SHARE_OF_MARKS * times.sum())
        # -1 in one cell may be true: many values lie around zero.
        if are_usual and alone_below_zero and (often or sign * ordered[0] <= -9):
            return size
        # 99 in six cells, 14 above the oldest: true values are rarer at their end than elsewhere.
        are_heaped = very_often and fewest >= 2 * times[size:].mean() and ordered[0] not in (0, -1)
        if are_usual and are_heaped and not has_codes:
            needed = width / 5
        elif are_usual and often:
            needed = width if has_codes else width / 2
        elif not has_codes and (are_usual or very_often):
            needed = width
        else:
            continue
        if gap > needed:
            return size
    return 0


def doubt_lone(name: str, lone: Sequence[Lone]) -> str:
    """What lone numbers may be; empty if there are none.

    >>> doubt_lone("chol", [(0.0, 49, 100.0)])[:66]
    'has 49 cells of 0, far from all others (the nearest is 100): does '
    """
    if not lone:
        return ""
    found = ", ".join(
        f"{times:,} cells of {value:g}, far from all others (the nearest is {nearest:g})"
        for value, times, nearest in lone
    )
    marks = " ".join(f"--missing {shlex.quote(f'{name}={value:g}')}" for value, _, _ in lone)
    return (
        f"has {found}: does it mark missing values? If so, draft again with {marks}; if not, "
        "delete 'lone' of the column in the draft, or the merge asks again"
    )
