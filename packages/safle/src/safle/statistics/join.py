"""The join: whole samples from counts of pairs of symbols.

A pair cell (s, t) that holds m samples is a set of m samples, each with one symbol of every other
table and one class. All pairs of these symbols occur, so each sample is a clique of occupied cells,
through (s, t), with one symbol of every table. If there is only one such clique, it is the m
samples. They are subtracted from the counts, which leaves more cells with a single clique.

The diagonal is a cell of pairs, and the class is a table: a symbol that occurs once and a class of
one sample are the simplest cases. What is found is certain; what is not found may be found by
somebody who searches longer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from safle.statistics.cells import LEAST_CELL
from safle.statistics.statistics import Statistics
from safle.statistics.triangle import Integers

MAX_COLUMNS = 4_096
"""Most columns that are joined: their counts take 64 MB. Of more, the first tables are joined."""
MAX_FAILURES = 200
"""Cells without a result after which the join ends: some seconds."""
MAX_NEAR = 512
NEAR_PER_TABLE = 8
"""Symbols that may go with a cell; with more, its cliques are not searched."""
MAX_SEEDS = 1 << 18
"""Most cells that are tried; of more, an even selection."""
MAX_STEPS = 100
"""Steps of the search for a clique before a cell is given up."""


def join_cells(statistics: Statistics) -> tuple[Integers, Integers]:
    """Find samples in cells of fewer than `LEAST_CELL` samples.

    Returns
    -------
    symbols : their rows of the gram, int64, (found, tables), of the tables that were joined
    owners : their places among the classes, int64, (found,); -1 where several are possible

    >>> import numpy as np
    >>> from safle import EmbeddingEncoder, count
    >>> encoder = EmbeddingEncoder([[0.5, 0.5]], buckets=1, group_size=1)
    >>> statistics = count(encoder, [[0, 0], [0, 1], [1, 0]], [0, 0, 0])
    >>> symbols, _ = join_cells(statistics)
    >>> sorted(symbols.tolist())
    [[0, 2], [0, 3], [1, 2]]
    """
    counts, ends = _extend(statistics)
    tables = len(ends) - 1
    classes = len(statistics.class_names)
    # Samples that agree in all symbols may differ in dense columns.
    most = 1 if statistics.layout.dense_dim else LEAST_CELL - 1
    found = [*_join(counts, ends, most)]
    rows = np.array([clique[:tables] for clique in found], np.int64).reshape(len(found), tables)
    first = len(counts) - classes
    # A clique with one class ends in it.
    owners = [clique[tables] - first if len(clique) > tables else -1 for clique in found]
    return rows, np.array(owners, np.int64)


def _extend(statistics: Statistics) -> tuple[NDArray[np.int32], Integers]:
    """Counts of pairs among the symbols and classes, and where each table ends in them."""
    offsets = statistics.offsets
    room = MAX_COLUMNS - len(statistics.class_names)
    tables = max(int(np.searchsorted(offsets, room, side="right")) - 1, 0)
    seen = int(offsets[tables])
    size = seen + len(statistics.class_names)
    counts = np.zeros((size, size), np.int32)
    chosen = np.arange(seen)
    counts[:seen, :seen] = statistics.gram.columns(chosen, slice(seen))
    counts[:seen, seen:] = statistics.cross[:seen]
    counts[seen:, :seen] = statistics.cross[:seen].T
    counts[seen:, seen:] = np.diag(statistics.class_counts)
    return counts, np.append(offsets[1 : tables + 1], size)


def _join(counts: NDArray[np.int32], ends: Integers, most: int) -> Iterator[Integers]:
    """Yield samples, and subtract them from the counts, until none is certain."""
    failures = 0
    seeds = len(counts)
    found = True
    while found:
        found = False
        for first, second in _seeds(counts[:seeds, :seeds], most):
            times = int(counts[first, second])
            if not 0 < times <= most or max(first, second) >= seeds:
                continue
            clique = _only_clique(counts, ends, first, second)
            if clique is None:
                failures += 1
                if failures > MAX_FAILURES:
                    return
                continue
            counts[np.ix_(clique, clique)] -= times
            found = True
            if len(clique) < len(ends):
                # It stays in the counts of its class, which now are those of samples known, too.
                seeds = int(ends[-2])
            yield from [clique] * times


def _seeds(counts: NDArray[np.int32], most: int) -> list[list[int]]:
    """Cells of few samples, those first whose symbols are rare."""
    pairs = np.argwhere(np.triu((counts > 0) & (counts <= most)))
    pairs = pairs[:: len(pairs) // MAX_SEEDS + 1]
    often = counts.diagonal()[pairs].sum(axis=1)
    order = np.lexsort((often, counts[pairs[:, 0], pairs[:, 1]]))
    seeds: list[list[int]] = pairs[order].tolist()
    return seeds


def _only_clique(
    counts: NDArray[np.int32], ends: Integers, first: int, second: int
) -> Integers | None:
    """The one clique through a cell, a symbol of every table, then the class if it is certain.

    None if there are several, or the search is too long.
    """
    near = np.flatnonzero((counts[first] > 0) & (counts[second] > 0))
    if len(near) > min(MAX_NEAR, NEAR_PER_TABLE * len(ends)):
        return None
    table = np.searchsorted(ends, near, side="right")
    tables = len(ends) - 1
    pairs = counts[np.ix_(near, near)] > 0
    # Two symbols of one table never belong to one sample.
    pairs[(table[:, None] == table) & ~np.eye(len(near), dtype=bool)] = False
    waiting = [np.ones(len(near), bool)]
    only: Integers | None = None
    for _ in range(MAX_STEPS):
        if not waiting:
            return only
        kept = _prune(pairs, table, len(ends), waiting.pop())
        if kept is None:
            continue
        # Most symbols occur in every class: the class does not tell cliques apart.
        numbers = np.bincount(table[kept], minlength=len(ends))
        several = np.flatnonzero(numbers[:tables] > 1)
        if not len(several):
            if only is not None:
                return None
            only = near[kept] if numbers[tables] == 1 else near[kept & (table < tables)]
            continue
        smallest = several[numbers[several].argmin()]
        waiting += [kept & pairs[place] for place in np.flatnonzero(kept & (table == smallest))]
    return None


def _prune(
    pairs: NDArray[np.bool_], table: Integers, tables: int, kept: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Leave out symbols that pair with no symbol of some table; None if a table is left empty."""
    while True:
        places = np.flatnonzero(kept)
        starts = np.searchsorted(table[places], np.arange(tables))
        if len(np.unique(table[places])) < tables:
            return None
        paired = np.logical_or.reduceat(pairs[np.ix_(places, places)], starts, axis=1).all(axis=1)
        if paired.all():
            return kept
        kept = np.zeros(len(kept), bool)
        kept[places[paired]] = True
