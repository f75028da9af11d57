"""Counting at a site: a table -> the counts that would leave, and those that a policy judges.

They differ where samples have weights or rows repeat: ten copies of one patient are one patient.
Every command counts here. `safle.site.sheet.write_release` asks the policy about the second
counts, writes the log and lets the first ones go; the release sheet shows both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.basics.progress import Progress, no_progress
from safle.encoders import Encoder
from safle.errors import InvalidInput, SafleWarning
from safle.site.disguises import (
    Disguises,
    find_disguised_answers,
    find_disguised_values,
    find_disguises,
)
from safle.statistics import Accumulator, Statistics
from safle.statistics.cells import count_cells
from safle.statistics.histogram import Grid, Histogram
from safle.tables.checks import ClassName

if TYPE_CHECKING:
    # Counting needs neither a model nor a solver.
    from safle.evaluation.counts import Evaluation
    from safle.model import Model
    from safle.tables import Table

T = TypeVar("T")
Weights = NDArray[np.int64]
COLUMNS_COMPARED = 6
"""Columns that are compared first; only rows that agree in these are compared in all columns."""
ROWS_HASHED = 4_096
SHARE_OF_REPEATS = 0.01
"""From this share of repeats on they are said: fewer patients are alike by chance."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Any large odd number: products with it carry every bit of a word upwards."""


class Counts(NamedTuple, Generic[T]):
    """A site's samples, counted in two ways.

    Attributes
    ----------
    total : counts a sample of weight w as w samples; these counts would leave
    distinct_rows : counts each different row once; a policy judges these counts. It is ``total``
        itself where no sample has a weight and no row repeats another
    disguises : what a policy judges beside the cells of the sums; None where nobody looked

    >>> Counts(total=10, distinct_rows=1).distinct_rows
    1
    """

    total: T
    distinct_rows: T
    disguises: Disguises | None = None


def count_table(
    encoder: Encoder,
    table: Table,
    *,
    where: object,
    classes: Sequence[ClassName] | None = None,
    allow_outside: bool = False,
    least_cell: int = 0,
    progress: Progress = no_progress,
) -> Counts[Statistics]:
    """The statistics of a site's labelled table, one batch in memory at a time.

    Parameters
    ----------
    table : with the columns of the encoder, as `safle.encoders.open_matching` opens it
    where : the file, which errors name
    classes : the only labels there may be; any if None
    allow_outside : see `safle.count`
    least_cell : of a policy that will judge the counts: if no cell has fewer samples, the codes are
        looked at once more, for cells in disguise
    progress : called with the finished share, 0 to 1

    Examples
    --------
    >>> import numpy as np
    >>> from safle import DeclaredRange, LinearEncoder
    >>> from safle.tables import Table
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> labels, weights = np.array(["ill", "well"]), np.array([10, 1])
    >>> table = Table(np.array([[0.1], [0.9]]), labels, weights=weights)
    >>> counts = count_table(encoder, table, where="ward.csv")
    >>> counts.total.sample_count, counts.distinct_rows.sample_count
    (11, 2)
    """
    total = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    distinct_rows = Accumulator(encoder, classes=classes, allow_outside=True)
    copies = count_copies(table)
    first = _mark_first(table, copies)
    done = 0

    def add(features: NDArray[Any], labels: NDArray[Any], weights: Weights | None) -> None:
        nonlocal done
        total.add_samples(features, labels, weights)
        if first is not None:
            distinct_rows.add_samples(features, labels, first[done : done + len(features)])
        done += len(features)

    table.for_each_batch(add, where=where, progress=progress)
    try:
        statistics = total.snapshot()
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    rows = statistics
    if first is not None:
        with warnings.catch_warnings():
            # The snapshot of ``total`` has warned of values outside the range.
            warnings.simplefilter("ignore", SafleWarning)
            rows = distinct_rows.snapshot()
    disguises = None
    if least_cell and rows.sample_count and count_cells(rows.cells).smallest >= least_cell:
        disguises = find_disguises(encoder, table, rows, statistics, copies, least_cell)
    return Counts(statistics, rows, disguises)


def find_first(table: Table) -> NDArray[np.bool_] | None:
    """Which samples are the first of their row, features and label; None if weights say the same.

    Samples of weight zero are passed over.
    """
    return _mark_first(table, count_copies(table))


def _mark_first(table: Table, copies: Weights) -> NDArray[np.bool_] | None:
    first = copies > 0
    weights = 1 if table.weights is None else table.weights
    return None if (first == weights).all() else first


def count_copies(table: Table) -> Weights:
    """How often each row, features and label, is counted: at the first of its samples, else 0."""
    weights = np.ones(len(table), np.int64) if table.weights is None else table.weights
    counted = np.flatnonzero(weights > 0)
    columns = np.unique(np.linspace(0, table.feature_dim - 1, COLUMNS_COMPARED).astype(np.intp))
    hashes = _hash_rows(block[:, columns] for block, _ in table.batches(ROWS_HASHED))[counted]
    ordered = np.sort(hashes)
    candidates = counted[np.isin(hashes, ordered[1:][ordered[1:] == ordered[:-1]])]
    _, labels = np.unique(_labels_of(table)[candidates], return_inverse=True)
    parts = [slice(i, i + ROWS_HASHED) for i in range(0, len(candidates), ROWS_HASHED)]
    full_hashes = _hash_rows(
        np.column_stack([table.features[candidates[part]], labels[part]]) for part in parts
    )
    _, places, rows = np.unique(full_hashes, return_index=True, return_inverse=True)
    times = np.zeros(len(places), np.int64)
    np.add.at(times, rows, weights[candidates])
    copies = np.maximum(weights, 0)
    copies[candidates] = 0
    copies[candidates[places]] = times
    return copies


def _labels_of(table: Table) -> NDArray[Any]:
    """Its labels; without any, all samples are of one class."""
    return np.zeros(len(table), np.int64) if table.labels is None else table.labels


def describe_repeats(table: Table, distinct_rows: int) -> str:
    """A warning of samples that repeat the row of another; empty if hardly any does.

    Repeats are said from a share of `SHARE_OF_REPEATS` on; with ids, if one id repeats as well,
    whatever the share. ``distinct_rows`` is the number of different rows, as `count_table` has
    counted them.

    >>> from safle.tables import Table
    >>> describe_repeats(Table(np.array([[0.1], [0.9]]), np.array([0, 1])), 2)
    ''
    """
    samples = len(table) if table.weights is None else int((table.weights > 0).sum())
    repeats = samples - distinct_rows
    if not repeats:
        return ""
    text = (
        f"{repeats:,} of {samples:,} samples repeat the row of another. What leaves counts every "
        "one of them; only the policy counts each different row once. If they are the same "
        "patients, remove them and count again"
    )
    matters = repeats >= SHARE_OF_REPEATS * samples
    if table.ids is None:
        return text if matters else ""
    pairs = zip(table.ids.tolist(), _labels_of(table).tolist(), strict=True)
    first = find_first(replace(table, labels=np.array([repr(pair) for pair in pairs])))
    repeated_ids = 0 if first is None else samples - int(first.sum())
    said = f"{text} (those that repeat its id as well: {repeated_ids:,})"
    return said if matters or repeated_ids else ""


def _hash_rows(blocks: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """A hash of each row, (rows,); two different rows share one with probability of about 2^-64."""
    hashed = [np.empty(0, np.uint64)]
    for block in blocks:
        # -0.0 + 0.0 is 0.0: the two zeros are equal, but their bits differ.
        words = (np.asarray(block, np.float64) + 0.0).view(np.uint64) * MIXER
        # The lowest bits of most numbers are zero: the highest bits are mixed into them.
        words ^= words >> np.uint64(32)
        factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
        hashed.append(words @ (2 * factors + 1))
    return np.concatenate(hashed)


def evaluate_table(
    model: Model,
    table: Table,
    *,
    where: object,
    least_cell: int = 0,
    progress: Progress = no_progress,
) -> Counts[Evaluation]:
    """How a model answers on a site's labelled table; see `count_table`.

    Examples
    --------
    >>> import numpy as np
    >>> from safle import SafleClassifier
    >>> from safle.tables import Table
    >>> model = SafleClassifier().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1]).model_
    >>> table = Table(np.array([[0.3], [0.7]]), np.array([0, 1]), weights=np.array([5, 0]))
    >>> evaluate_table(model, table, where="ward.csv").total.sample_count
    5
    """
    from safle.evaluation.counts import Evaluation
    from safle.evaluation.evaluating import evaluate_each

    empty = Evaluation.empty(model.digest, model.class_names)
    counts, outside = [empty, empty], model.watch()
    copies = count_copies(table)
    first = _mark_first(table, copies)
    done = 0

    def add(features: NDArray[Any], labels: NDArray[Any], weights: Weights | None) -> None:
        nonlocal done
        outside.add(model.encoder.check(features))
        weightings = [weights] if first is None else [weights, first[done : done + len(features)]]
        for i, evaluation in enumerate(evaluate_each(model, features, labels, weightings)):
            counts[i] += evaluation
        done += len(features)

    table.for_each_batch(add, where=where, progress=progress)
    outside.warn()
    total = counts[0]
    rows = total if first is None else counts[1]
    disguises = None
    if least_cell and count_cells(rows.cells).smallest >= least_cell:
        disguises = find_disguised_answers(model, table, rows, copies)
    return Counts(total, rows, disguises)


def histogram_table(
    grid: Grid,
    table: Table,
    *,
    where: object,
    least_cell: int = 0,
    progress: Progress = no_progress,
) -> Counts[Histogram]:
    """How often values of a site's table, which needs no labels, fall into bins; see `count_table`.

    Examples
    --------
    >>> from safle.tables import Table
    >>> grid = Grid(0, 1, feature_dim=1, bins=2)
    >>> counts = histogram_table(grid, Table(np.array([[0.1], [0.1], [0.9]])), where="ward.csv")
    >>> counts.total.counts.tolist(), counts.distinct_rows.counts.tolist()
    ([[0, 2, 1, 0]], [[0, 1, 1, 0]])
    """
    copies = count_copies(table)
    first = copies > 0
    # A client without samples has a histogram too.
    total = Histogram.of([], grid)
    distinct_rows = total
    done = 0

    def add(features: NDArray[Any], _labels: Any, _weights: Any) -> None:
        nonlocal total, distinct_rows, done
        total += Histogram.of(features, grid)
        distinct_rows += Histogram.of(features[first[done : done + len(features)]], grid)
        done += len(features)

    table.for_each_batch(add, where=where, progress=progress)
    if first.all():
        distinct_rows = total
    disguises = None
    if least_cell and count_cells(distinct_rows.cells).smallest >= least_cell:
        disguises = find_disguised_values(distinct_rows, table, copies)
    return Counts(total, distinct_rows, disguises)
