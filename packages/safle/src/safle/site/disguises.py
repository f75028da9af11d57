"""Disguises: what a policy's rule on cells would miss if it saw the sums alone.

The author of an encoder can hide a cell of few samples in columns that are not counts: a range in
which all samples but one have the same code, or two thresholds a hair's breadth apart. So a site
judges the codes themselves:

- a dense column with a usual code (that of at least half of the samples) counts as a table of two
  symbols if it has two codes, and else as the set of samples with another code: such sets, and
  their pairs with symbols, classes and each other, are cells;
- the levels of a feature that sums of symbols, or of units, reveal (`Encoder.levels`) are one more
  table, and a symbol without another that is a part of it is one more set;
- what sums of one dense column reveal because they are whole numbers: `safle.site.remainders`;
- the *weight* of a sample i is its leverage ``p_i' inverse(P'P) p_i``, of its row p_i of all
  columns P: the largest share that it has of ``sum v^2``, over all weighted sums v of columns. From
  a weighted sum in which it has the share w, a receiver estimates any code of the sample with an
  error of ``sqrt((1 - w) / w)`` deviations of that code. A set of few samples that has all of a sum
  is a cell: `safle.site.shares` searches for such sets;
- a row that repeats many times may not outweigh a cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.encoders.base import Encoder
from safle.encoders.codes import DENSE_LIMIT, Block, Codes, CodeSpace, Layout, tables_of
from safle.site.remainders import find_fewest_apart
from safle.site.shares import Blocks, find_shares
from safle.statistics.accumulator import Accumulator
from safle.statistics.cells import (
    cells_of,
    count_cells,
    find_smallest_difference,
    independent_columns,
)
from safle.statistics.histogram import Histogram
from safle.statistics.statistics import Statistics, count_codes
from safle.tables.table import Table

if TYPE_CHECKING:
    # Counting needs neither a model nor a solver.
    from safle.evaluation.counts import Evaluation
    from safle.model.model import Model

MAX_WEIGHT = 0.8
"""Estimates of a code are then off by at least half a deviation."""
ROWS_AT_ONCE = 4_096
"""Rows that are encoded together, and among which the usual code of a column is searched."""


class Disguises(NamedTuple):
    """What the codes of a site's samples show beside the cells of their sums.

    Attributes
    ----------
    smallest : samples in the smallest set that has an unusual code, or a level; 0 without any.
        Where a row repeats, how many of it would fill the smallest cell
    weight : the largest of a sample; 1 with at most as many samples as columns
    few : the largest weight of fewer samples than a cell must have, as far as was found
    """

    smallest: int
    weight: float
    few: float = 0.0


def find_disguises(
    encoder: Encoder,
    table: Table,
    statistics: Statistics,
    total: Statistics,
    copies: NDArray[np.int64],
    least_cell: int,
) -> Disguises:
    """Judge the samples of a labelled table that are counted ``copies`` times, (samples,), or 0.

    ``statistics`` count each of them once, and ``total`` that often. Where columns are counted by
    class, the samples of each class are judged by themselves, too.
    """
    rows = np.flatnonzero(copies)
    few = least_cell - 1
    judged = [_judge(_Samples(encoder, table, rows), copies, statistics, few)]
    labels = np.asarray(table.labels)[rows]
    for name, part in zip(statistics.class_names, statistics.by_class, strict=False):
        of_class = _Samples(encoder, table, rows[labels == name], encoder.layout.class_layout)
        judged.append(_judge(of_class, copies, part, few))
    sets = [one.smallest for one in judged if one.smallest]
    heaviest = int(copies.max())
    if heaviest > 1:
        # Of a row that is counted a million times, large cells show every code.
        sets.append(max(count_cells(total.cells).smallest // heaviest, 1))
    return Disguises(
        min(sets, default=0),
        max(one.weight for one in judged),
        max(one.few for one in judged),
    )


class _Samples(NamedTuple):
    """Some samples of a table, encoded again for every pass over them."""

    encoder: Encoder
    table: Table
    rows: NDArray[np.intp]
    by_class: Layout | None = None

    def features(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Batches of features and labels."""
        for first in range(0, len(self.rows), ROWS_AT_ONCE):
            batch = self.rows[first : first + ROWS_AT_ONCE]
            features = self.encoder.contract.check(np.asarray(self.table.features[batch]))
            yield features, np.asarray(self.table.labels)[batch]

    def encode(self, features: NDArray[Any]) -> Codes:
        """The codes that are counted: of a class by itself only the columns counted by class."""
        codes = self.encoder.encode_checked(features)
        if self.by_class is None:
            return codes
        return Codes(codes.symbols[:, :0], codes.dense[:, : self.by_class.dim])

    def dense(self) -> Iterator[NDArray[np.int16]]:
        """Batches of dense codes."""
        return (self.encode(features).dense for features, _ in self.features())

    def levels(self, features: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
        """See `Encoder.levels`; no columns where a class is judged by itself."""
        return (
            np.empty((len(features), 0), np.uint8)
            if self.by_class
            else self.encoder.levels(features)
        )


def _judge(
    samples: _Samples, copies: NDArray[np.int64], statistics: Statistics, few: int
) -> Disguises:
    if not len(samples.rows):
        return Disguises(0, 0.0)
    columns = independent_columns(statistics)
    share = columns / len(samples.rows)
    shares = (min(share, 1.0), min(share, 1.0))
    if share <= MAX_WEIGHT:
        lengths = np.sqrt(np.maximum(statistics.diagonal, 1).astype(np.float64))
        times = copies[samples.rows]
        shares = find_shares(
            lambda: _weigh((row / lengths for row in _columns(samples, statistics)), times), few
        )
    sets = [_smallest_set(samples), find_fewest_apart(samples.dense, few)]
    return Disguises(min(filter(None, sets), default=0), *shares)


def _columns(samples: _Samples, statistics: Statistics) -> Iterator[NDArray[np.float64]]:
    """All columns, float64, (samples, dim), a batch at a time."""
    bases = statistics.layout.bases[:-1]
    seen = len(statistics.codes)
    for features, _ in samples.features():
        codes = samples.encode(features)
        phi = np.zeros((len(codes), statistics.dim))
        places = np.searchsorted(statistics.codes, codes.symbols + bases)
        np.put_along_axis(phi, places, 1.0, axis=1)
        phi[:, seen:] = codes.dense
        yield phi


def find_disguised_answers(
    model: Model, table: Table, counts: Evaluation, copies: NDArray[np.int64]
) -> Disguises:
    """As `find_disguises`, of the answers for samples that ``counts`` count once each.

    Differences of counts are counts, too: with many classes, the maker of a model can ask for the
    samples of one set without those of another. In a weighted sum of counts that rests on m samples
    one of these has a weight of at least 1 / m.
    """
    from safle.evaluation.evaluating import mark_answers

    samples = _Samples(model.encoder, table, np.flatnonzero(copies))
    return _judge_marks(
        lambda: (mark_answers(model, *batch, counts) for batch in samples.features()),
        copies[samples.rows],
    )


def find_disguised_values(
    histogram: Histogram, table: Table, copies: NDArray[np.int64]
) -> Disguises:
    """As `find_disguised_answers`, of values that ``histogram`` counts once for each row.

    Two features that follow from each other, with bins of their own, differ in few samples.
    """
    occupied = np.flatnonzero(histogram.counts)
    rows = np.flatnonzero(copies)
    if len(occupied) - histogram.feature_dim + 1 > len(rows):
        return Disguises(1, 0.0)
    firsts = np.arange(histogram.feature_dim) * (histogram.bins + 2)

    def mark(first: int) -> NDArray[np.float64]:
        features = np.asarray(table.features[rows[first : first + ROWS_AT_ONCE]], np.float64)
        at = np.floor((features - histogram.low) * histogram.rate)
        cells = firsts + np.clip(at, -1, histogram.bins).astype(np.int64) + 1
        # Where the kernel rounds otherwise, the cell may be empty: the next one is as good.
        places = np.minimum(np.searchsorted(occupied, cells), len(occupied) - 1)
        marks = np.zeros((len(features), len(occupied)))
        np.put_along_axis(marks, places, 1.0, axis=1)
        return marks

    return _judge_marks(lambda: map(mark, range(0, len(rows), ROWS_AT_ONCE)), copies[rows])


def _judge_marks(blocks: Blocks, times: NDArray[np.int64]) -> Disguises:
    """Judge rows that are marked where they are counted: cells, and all differences of cells."""
    weight, _ = find_shares(lambda: _weigh(blocks(), times))
    return Disguises(max(int(1 / weight + 1e-6), 1), 0.0)


def _weigh(
    blocks: Iterable[NDArray[np.float64]], times: NDArray[np.int64]
) -> Iterator[NDArray[np.float64]]:
    """Blocks of rows whose squares count as often as the rows do."""
    done = 0
    for block in blocks:
        yield block * np.sqrt(times[done : done + len(block)])[:, None]
        done += len(block)


def _smallest_set(samples: _Samples) -> int:
    """Samples in the smallest set, or pair of sets, that columns mark; 0 if they mark none."""
    usual, sparse, double = _find_usual(samples)
    total: Accumulator | None = None
    for features, labels in samples.features():
        codes = samples.encode(features)
        levels = samples.levels(features)
        unusual = codes.dense != usual
        symbols = np.concatenate([codes.symbols, levels, unusual[:, double]], axis=1)
        if total is None:
            levels_of = (samples.encoder.level_count,) * levels.shape[1]
            total = _start(samples, levels_of + (2,) * len(double), len(sparse))
        marks = np.pad(unusual[:, sparse].astype(np.int16), ((0, 0), (0, 1)), constant_values=1)
        marked = Codes(symbols.astype(total.layout.symbol_type, order="C"), marks)
        total.add(count_codes(total.space, marked, labels))
    assert total is not None, "there are samples"
    statistics = total.snapshot()
    smallest = count_cells(cells_of(statistics, statistics.dim)).smallest
    return min(find_smallest_difference(statistics) or smallest, smallest)


def _start(samples: _Samples, more_tables: tuple[int, ...], sparse: int) -> Accumulator:
    """Counts of symbols, of levels, of columns of two codes, and of sets of unusual codes."""
    tables = () if samples.by_class else samples.encoder.layout.table_sizes.tolist()
    blocks = tables_of([*tables, *more_tables])
    if sparse:
        blocks.append(Block("marks", sparse))
    # A constant, so that there is a column.
    layout = Layout([*blocks, Block("constant", low=1)])
    return Accumulator(CodeSpace(samples.encoder.fingerprint, layout))


def _find_usual(
    samples: _Samples,
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """The usual code of each dense column, and which columns have one and several others, or one.

    A column without a usual code, or with no other, is in neither list.
    """
    generator = np.random.default_rng(0)
    number = min(len(samples.rows), ROWS_AT_ONCE)
    drawn = samples._replace(rows=np.sort(generator.choice(samples.rows, number, replace=False)))
    dense = np.concatenate([*drawn.dense()])
    ordered = np.sort(dense, axis=0)
    # A code of half of the samples lies on one side of their middle or the other.
    middle = ordered[[(number - 1) // 2, number // 2]].astype(np.int64)
    often = (dense == middle[:, None]).sum(axis=1)
    usual = np.where(often[0] >= often[1], middle[0], middle[1])
    others = np.zeros(len(usual), np.int64)
    least = np.full(len(usual), DENSE_LIMIT + 1)
    most = -least
    for batch in samples.dense():
        codes = batch.astype(np.int64)
        unusual = codes != usual
        others += unusual.sum(axis=0)
        least = np.minimum(least, np.where(unusual, codes, least).min(axis=0))
        most = np.maximum(most, np.where(unusual, codes, most).max(axis=0))
    has_usual = (others > 0) & (2 * others <= len(samples.rows))
    return (
        usual,
        np.flatnonzero(has_usual & (least < most)),
        np.flatnonzero((others > 0) & (least == most)),
    )
