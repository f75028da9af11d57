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
    from safle.statistics.value import Statistics

LEAST_CELL = 10
"""The k of the threshold rule that a policy proposes: agencies use 3 to 10 or more."""
COLUMNS_AT_ONCE = 1_024
"""Columns of a gram that are looked at together."""


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


def independent_columns(statistics: Statistics) -> int:
    """How many columns are independent, as a rule: with as many samples, these may be found.

    The columns of each table add up to the constant column: these sums are one column.
    """
    layout = statistics.layout
    constant = layout.experts + len(layout.constants)
    return statistics.dim - max(constant - 1, 0)
