"""Cells: the entries of a value that are counts of samples, and how many samples each has.

A cell of few samples says much about each of them, and cells of one sample can be joined into
whole samples: `safle.statistics.join`. Statistical disclosure control therefore has a threshold
rule: a table is published only if each of its cells is empty or has at least k samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from safle.statistics.statistics import Statistics

LEAST_CELL = 10
"""The k of the threshold rule that a policy proposes: agencies use 3 to 10 or more."""
COLUMNS_AT_ONCE = 1_024
"""Columns of a gram that are looked at together."""
WHOLES_AT_ONCE = 256
"""Columns of a gram from which one is taken off together."""


class Cells(NamedTuple):
    """How many cells have samples, and how few.

    Attributes
    ----------
    occupied : cells with at least one sample
    below : those with fewer than ``LEAST_CELL``
    smallest : samples in the smallest of them; 0 if all cells are empty

    >>> count_cells([np.array([0, 3, 12])])
    Cells(occupied=2, below=1, smallest=3)
    """

    occupied: int
    below: int
    smallest: int


def count_cells(tables: Iterable[NDArray[Any]]) -> Cells:
    """Count the cells of tables of counts."""
    occupied = 0
    below = 0
    smallest = 0
    for table in tables:
        counts = table[table > 0]
        if counts.size:
            occupied += counts.size
            below += int((counts < LEAST_CELL).sum())
            fewest = int(counts.min())
            smallest = min(smallest or fewest, fewest)
    return Cells(occupied, below, smallest)


def cells_of(statistics: Statistics, columns: int | None = None) -> Iterator[NDArray[np.int64]]:
    """The counts among sums: of classes, of symbols by class, of pairs of symbols.

    ``columns`` of the gram are counts: by default those of the symbols. A pair occurs once.
    """
    counted = len(statistics.codes) if columns is None else columns
    yield statistics.class_counts
    yield statistics.cross[:counted]
    for first in range(0, counted, COLUMNS_AT_ONCE):
        after = min(first + COLUMNS_AT_ONCE, counted)
        chosen = np.arange(first, after)
        block = statistics.gram.columns(chosen, slice(after))
        yield np.triu(block, -first)


def find_smallest_difference(statistics: Statistics) -> int:
    """Fewest samples by which a cell exceeds another that is a part of it; 0 without such cells.

    A symbol whose samples all have another symbol can be taken off that one: what is left is a set,
    and its pairs with all columns are differences of cells.
    """
    counted = len(statistics.codes)
    sizes = statistics.diagonal[:counted]
    fewest: list[int] = []
    for first in range(0, counted, COLUMNS_AT_ONCE):
        chosen = np.arange(first, min(first + COLUMNS_AT_ONCE, counted))
        block = statistics.gram.columns(chosen)
        inside = (block[:counted] == sizes[chosen]) & (sizes[:, None] > sizes[chosen])
        for part in np.flatnonzero(inside.any(axis=0)):
            all_wholes = np.flatnonzero(inside[:, part])
            for begin in range(0, len(all_wholes), WHOLES_AT_ONCE):
                wholes = all_wholes[begin : begin + WHOLES_AT_ONCE]
                pairs = statistics.gram.columns(wholes) - block[:, part, None]
                classes = statistics.cross[wholes] - statistics.cross[first + part]
                left = np.concatenate([pairs.ravel(), classes.ravel()])
                # A whole has more samples than its part: something is left.
                fewest.append(int(left[left > 0].min()))
    return min(fewest, default=0)


def independent_columns(statistics: Statistics) -> int:
    """How many columns are usually independent: that many samples may be reconstructed.

    The columns of each table add up to the constant column: these sums are one column.
    """
    layout = statistics.layout
    constant = layout.experts + len(layout.constants)
    return statistics.dim - max(constant - 1, 0)
