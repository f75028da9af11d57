"""Disguises: what a policy's rule on cells would miss if it saw the sums alone.

Whoever chooses an encoder can hide a cell of few samples in columns that are no counts: a range in
which all samples but one have the same code, or two thresholds a hair's breadth apart. So a site
judges the codes themselves:

- a dense column with a usual code (that of at least half of the samples) counts as a table of two
  symbols if it has two codes, and else as the set of samples with another code: such sets, and
  their pairs with symbols, classes and each other, are cells;
- what symbols say of a feature by their sums (`Encoder.levels`) is one more table;
- the *weight* of a sample i is its leverage ``p_i' inverse(P'P) p_i``, of its row p_i of all
  columns P: the largest share that it has of ``sum v^2``, over all weighted sums v of columns. From
  a weighted sum in which it has the share w, a receiver estimates any code of the sample with an
  error of ``sqrt((1 - w) / w)`` deviations of that code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from safle.basics.memory import require_free_memory
from safle.encoders import Encoder
from safle.encoders.codes import DENSE_LIMIT, Block, Codes, CodeSpace, Layout, tables_of
from safle.statistics import Accumulator, Statistics
from safle.statistics.cells import cells_of, count_cells, independent_columns
from safle.statistics.value import count_codes
from safle.tables import Table

if TYPE_CHECKING:
    # Counting needs neither a model nor a solver.
    from safle.evaluation.counts import Evaluation
    from safle.model import Model

MOST_WEIGHT = 0.8
"""Estimates of a code are then off by at least half a deviation."""
ROWS_AT_ONCE = 4_096
"""Rows that are encoded together, and among which the usual code of a column is searched."""
SMALLEST_DIRECTION = 1e-8
"""Weighted sums of columns, of length 1 each, that are shorter than this are rounding."""


class Disguises(NamedTuple):
    """What the codes of a site's samples show beside the cells of their sums.

    Attributes
    ----------
    smallest : samples in the smallest set that has an unusual code, or a level; 0 without any
    weight : the largest of a sample; 1 where there are no more samples than columns
    """

    smallest: int
    weight: float


def find_disguises(
    encoder: Encoder, table: Table, statistics: Statistics, counted: NDArray[Any] | None
) -> Disguises:
    """Judge the samples of a labelled table that ``counted`` marks, all if None.

    ``statistics`` count each of them once. Where columns are counted by class, the samples of each
    class are judged by themselves, too.
    """
    rows = np.arange(len(table)) if counted is None else np.flatnonzero(counted)
    judged = [_judge(_Samples(encoder, table, rows), statistics)]
    labels = np.asarray(table.labels)[rows]
    for name, part in zip(statistics.class_names, statistics.by_class, strict=False):
        of_class = _Samples(encoder, table, rows[labels == name], encoder.layout.by_class)
        judged.append(_judge(of_class, part))
    return Disguises(
        min((one.smallest for one in judged if one.smallest), default=0),
        max(one.weight for one in judged),
    )


class _Samples(NamedTuple):
    """Some samples of a table, encoded again whenever somebody looks at them."""

    encoder: Encoder
    table: Table
    rows: NDArray[np.intp]
    by_class: tuple[int, int] | None = None

    def features(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Batches of features and labels."""
        for first in range(0, len(self.rows), ROWS_AT_ONCE):
            batch = self.rows[first : first + ROWS_AT_ONCE]
            features = self.encoder.check(np.asarray(self.table.features[batch]))
            yield features, np.asarray(self.table.labels)[batch]

    def encode(self, features: NDArray[Any]) -> Codes:
        """The codes that are counted: of a class by itself only the columns counted by class."""
        codes = self.encoder.encode_checked(features)
        if self.by_class is None:
            return codes
        return Codes(codes.symbols[:, :0], codes.dense[:, slice(*self.by_class)])

    def levels(self, features: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
        """See `Encoder.levels`; no columns where a class is judged by itself."""
        return (
            np.empty((len(features), 0), np.uint8)
            if self.by_class
            else self.encoder.levels(features)
        )


def _judge(samples: _Samples, statistics: Statistics) -> Disguises:
    if not len(samples.rows):
        return Disguises(0, 0.0)
    columns = independent_columns(statistics)
    share = columns / len(samples.rows)
    weight = min(share, 1.0)
    if share <= MOST_WEIGHT:
        lengths = np.sqrt(np.maximum(statistics.diagonal, 1).astype(np.float64))
        weight = find_weight(lambda: (row / lengths for row in _columns(samples, statistics)))
    return Disguises(_smallest_set(samples), weight)


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


def find_weight(blocks: Callable[[], Iterable[NDArray[np.float64]]]) -> float:
    """The largest leverage of a row in blocks of rows, which are read twice.

    >>> round(find_weight(lambda: [np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])]), 6)
    1.0
    """
    factor: NDArray[np.float64] | None = None
    for block in blocks():
        size = block.shape[1]
        if factor is None:
            require_free_memory(
                8 * (3 * size + 2 * len(block)) * size,
                purpose=f"judging samples by {size} columns",
                advice="use an encoder with fewer columns, or send sums under masks",
            )
            # A direction in which nothing lies but rounding is left out.
            factor = SMALLEST_DIRECTION * np.eye(size)
        factor = np.asarray(np.linalg.qr(np.concatenate([factor, block]), mode="r"))
    weight = 0.0
    for block in blocks():
        turned = solve_triangular(factor, block.T, trans="T")
        weight = max(weight, float((turned**2).sum(axis=0).max(initial=0)))
    return min(weight, 1.0)


def find_disguised_answers(
    model: Model, table: Table, counts: Evaluation, counted: NDArray[Any] | None
) -> Disguises:
    """As `find_disguises`, of the answers for samples that ``counts`` count once each.

    Differences of counts are counts, too: with many classes, whoever makes a model can ask for the
    samples of one set without those of another. In a weighted sum of counts that rests on m samples
    one of these has a weight of at least 1 / m.
    """
    from safle.evaluation.evaluating import mark_answers

    rows = np.arange(len(table)) if counted is None else np.flatnonzero(counted)
    samples = _Samples(model.encoder, table, rows)
    weight = find_weight(
        lambda: (mark_answers(model, *batch, counts) for batch in samples.features())
    )
    return Disguises(int(1 / weight + 1e-6), 0.0)


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
    return count_cells(cells_of(statistics, statistics.dim)).smallest


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
    dense = np.concatenate([samples.encode(features).dense for features, _ in drawn.features()])
    ordered = np.sort(dense, axis=0)
    # A code of half of the samples lies on one side of their middle or the other.
    middle = ordered[[(number - 1) // 2, number // 2]].astype(np.int64)
    often = (dense == middle[:, None]).sum(axis=1)
    usual = np.where(often[0] >= often[1], middle[0], middle[1])
    others = np.zeros(len(usual), np.int64)
    least = np.full(len(usual), DENSE_LIMIT + 1)
    most = -least
    for features, _ in samples.features():
        codes = samples.encode(features).dense.astype(np.int64)
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
