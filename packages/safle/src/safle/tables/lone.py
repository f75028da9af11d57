"""Lone numbers: values far from all others of their column, as marks of missing values are.

A table writes -9, 99 or 999 where nothing was measured, or 0 where a living person has no 0. Such
a value lies at one end of its column, and a gap separates it from all others. How wide the gap
must be depends on the value: a usual mark is suspected sooner than any other number.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

MAX_MARKS = 3
"""Most marks at one end, as 777, 888 and 999 are."""
MIN_REST = 10
"""Fewer other values than this are codes, of which an end may lie apart."""
MIN_SHARE_OF_MARKS = 0.03
"""Share of the cells from which on any value may be a mark; an odd value that is true is rarer."""
_USUAL_MARK = re.compile(r"9*[789]|7{2,}|8{2,}")
"""9, 99, 998, 77, 888 and the like, without a sign or a point."""
Lone = tuple[float, int, float]
"""A lone value, in how many cells it is, and the value nearest to it."""


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
        if are_usual and often:
            needed = width if has_codes else width / 2
        elif not has_codes and (are_usual or very_often):
            needed = width
        else:
            continue
        if gap > needed:
            return size
    return 0
