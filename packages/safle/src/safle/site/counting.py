"""Counting at a site: a table -> the counts that would leave, and those that a policy judges.

They differ where rows repeat: ten copies of one patient are one patient. Every command counts
here, and gets three values:

- the counts of all samples, which would leave;
- those of each different row, which a policy judges: the same object if no row repeats another;
- what the policy judges beside the cells of the sums, or None where that was not searched.

`safle.site.sheet.write_release` asks the policy, writes the log and lets the first counts go; the
release sheet shows both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.progress import Progress, no_progress
from safle.encoders.base import Encoder
from safle.errors import InvalidInput, SafleWarning
from safle.site.disguises import (
    Disguises,
    find_disguised_answers,
    find_disguised_values,
    find_disguises,
)
from safle.statistics.accumulator import Accumulator
from safle.statistics.cells import count_cells
from safle.statistics.histogram import Histogram
from safle.statistics.statistics import Statistics
from safle.tables.checks import ClassName, as_labels

if TYPE_CHECKING:
    # Counting needs neither a model nor a solver.
    from safle.evaluation.counts import Evaluation
    from safle.model.model import Model
    from safle.tables.table import Table

Copies = NDArray[np.int64]
Hashes = NDArray[np.uint64]
ROWS_AT_ONCE = 4_096
SHARE_OF_REPEATS = 0.01
"""From this share of repeats on, a warning names them: fewer patients are alike by chance."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Any large odd number: products with it carry every bit of a word upwards."""


def count_table(
    encoder: Encoder,
    table: Table,
    *,
    where: object,
    classes: Sequence[ClassName] | None = None,
    allow_outside: bool = False,
    least_cell: int = 0,
    progress: Progress = no_progress,
) -> tuple[Statistics, Statistics, Disguises | None]:
    """The statistics of a site's labelled table, one batch in memory at a time.

    Parameters
    ----------
    table : with the columns of the encoder, as `safle.encoders.open_matching` opens it
    where : the file, which errors name
    classes : the allowed labels; all if None
    allow_outside : see `safle.count`
    least_cell : of a policy that will judge the counts: if no cell has fewer samples, the codes are
        looked at once more, for cells in disguise
    progress : called with the finished share, 0 to 1

    Examples
    --------
    >>> import numpy as np
    >>> from safle import LinearEncoder, Table, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> table = Table(np.array([[0.1], [0.1], [0.9]]), np.array(["ill", "ill", "well"]))
    >>> total, rows, _ = count_table(encoder, table, where="ward.csv")
    >>> total.sample_count, rows.sample_count
    (3, 2)
    """
    total, hashes = count_and_hash(
        encoder, table, where, classes=classes, allow_outside=allow_outside, progress=progress
    )
    copies = count_copies(hashes)
    rows = total if copies.all() else count_some(encoder, table, copies > 0)
    disguises = None
    if least_cell and rows.sample_count and count_cells(rows.cells).smallest >= least_cell:
        disguises = find_disguises(encoder, table, rows, total, copies, least_cell)
    return total, rows, disguises


def count_and_hash(
    encoder: Encoder,
    table: Table,
    where: object,
    *,
    classes: Sequence[ClassName] | None = None,
    allow_outside: bool = False,
    progress: Progress = no_progress,
) -> tuple[Statistics, Hashes]:
    """The statistics of all samples, and a hash of each row, (samples,)."""
    counter = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    hashes = [np.empty(0, np.uint64)]

    def add(features: NDArray[Any], labels: NDArray[Any]) -> None:
        counter.add_samples(features, labels)
        hashes.append(_hash_rows(features, labels))

    table.for_each_batch(add, where=where, progress=progress)
    try:
        return counter.snapshot(), np.concatenate(hashes)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def count_some(encoder: Encoder, table: Table, chosen: NDArray[np.bool_]) -> Statistics:
    """The statistics of the samples that are ``chosen``, (samples,), of a counted table."""
    counter = Accumulator(encoder, allow_outside=True)
    for features, labels in _choose(table, chosen):
        counter.add_samples(features, labels)
    with warnings.catch_warnings():
        # The snapshot of all samples has warned of values outside the range.
        warnings.simplefilter("ignore", SafleWarning)
        return counter.snapshot()


def evaluate_table(
    model: Model,
    table: Table,
    *,
    where: object,
    least_cell: int = 0,
    progress: Progress = no_progress,
) -> tuple[Evaluation, Evaluation, Disguises | None]:
    """How a model answers on a site's labelled table; see `count_table`.

    Examples
    --------
    >>> import numpy as np
    >>> from safle import SafleClassifier, Table
    >>> model = SafleClassifier().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1]).model_
    >>> table = Table(np.array([[0.3], [0.7]]), np.array([0, 1]))
    >>> total, _, _ = evaluate_table(model, table, where="ward.csv")
    >>> total.sample_count
    2
    """
    from safle.evaluation.counts import Evaluation
    from safle.evaluation.evaluating import count_answers

    total = Evaluation.empty(model.digest, model.class_names)
    outside = model.watch()
    hashes = [np.empty(0, np.uint64)]

    def add(features: NDArray[Any], labels: NDArray[Any]) -> None:
        nonlocal total
        checked = model.encoder.contract.check(features)
        outside.add(checked)
        total += count_answers(model, checked, labels)
        hashes.append(_hash_rows(features, labels))

    table.for_each_batch(add, where=where, progress=progress)
    outside.warn()
    copies = count_copies(np.concatenate(hashes))
    rows = total
    if not copies.all():
        rows = Evaluation.empty(model.digest, model.class_names)
        for features, labels in _choose(table, copies > 0):
            rows += count_answers(model, model.encoder.contract.check(features), labels)
    disguises = None
    if least_cell and count_cells(rows.cells).smallest >= least_cell:
        disguises = find_disguised_answers(model, table, rows, copies)
    return total, rows, disguises


def histogram_table(
    zero: Histogram,
    table: Table,
    *,
    where: object,
    least_cell: int = 0,
    progress: Progress = no_progress,
) -> tuple[Histogram, Histogram, Disguises | None]:
    """How often values of a site's table, which needs no labels, fall into bins; see `count_table`.

    Examples
    --------
    >>> from safle import Table
    >>> zero = Histogram.empty(0, 1, feature_dim=1, bins=2)
    >>> table = Table(np.array([[0.1], [0.1], [0.9]]))
    >>> total, rows, _ = histogram_table(zero, table, where="ward.csv")
    >>> total.counts.tolist(), rows.counts.tolist()
    ([[0, 2, 1, 0]], [[0, 1, 1, 0]])
    """
    total = zero
    hashes = [np.empty(0, np.uint64)]

    def add(features: NDArray[Any], labels: NDArray[Any] | None) -> None:
        nonlocal total
        total = total.count(features)
        hashes.append(_hash_rows(features, labels))

    table.for_each_batch(add, where=where, progress=progress)
    copies = count_copies(np.concatenate(hashes))
    rows = total
    if not copies.all():
        rows = zero
        for features, _ in _choose(table, copies > 0):
            rows = rows.count(features)
    disguises = None
    if least_cell and count_cells(rows.cells).smallest >= least_cell:
        disguises = find_disguised_values(rows, table, copies)
    return total, rows, disguises


def describe_repeats(samples: int, distinct_rows: int, table: Table | None = None) -> str:
    """A warning of samples that repeat the row of another; empty if hardly any does.

    Warns from a share of `SHARE_OF_REPEATS` on; if the table has ids, and one id repeats as
    well, at any share. ``distinct_rows`` is the number of different rows, as
    `count_table` has counted them.

    >>> describe_repeats(2, 2)
    ''
    """
    repeats = samples - distinct_rows
    if not repeats:
        return ""
    text = (
        f"{repeats:,} of {samples:,} samples repeat the row of another. What leaves counts every "
        "one of them; only the policy counts each different row once. If they are the same "
        "patients, remove them and count again"
    )
    matters = repeats >= SHARE_OF_REPEATS * samples
    if table is None or table.ids is None:
        return text if matters else ""
    labels = table.ids if table.labels is None else table.labels
    pairs = zip(table.ids.tolist(), labels.tolist(), strict=True)
    named = replace(table, labels=np.array([repr(pair) for pair in pairs]))
    hashes = [_hash_rows(*batch) for batch in named.batches(ROWS_AT_ONCE)]
    repeated_ids = int((count_copies(np.concatenate(hashes)) == 0).sum())
    said = f"{text} (those that repeat its id as well: {repeated_ids:,})"
    return said if matters or repeated_ids else ""


def _choose(table: Table, chosen: NDArray[np.bool_]) -> Iterator[tuple[NDArray[Any], Any]]:
    """Batches of the features and labels of the samples that are ``chosen``, (samples,)."""
    done = 0
    for features, labels in table.batches(ROWS_AT_ONCE):
        part = chosen[done : done + len(features)]
        yield features[part], None if labels is None else labels[part]
        done += len(features)


def count_copies(hashes: Hashes) -> Copies:
    """How often each row occurs: at the first of its samples, and 0 at the others, (samples,)."""
    _, first, times = np.unique(hashes, return_index=True, return_counts=True)
    copies = np.zeros(len(hashes), np.int64)
    copies[first] = times
    return copies


def _hash_rows(features: NDArray[Any], labels: NDArray[Any] | None) -> Hashes:
    """A hash of each row, features and label, (rows,).

    Two different rows share one with a probability of about 2^-64.
    """
    # -0.0 + 0.0 is 0.0: the two zeros are equal, but their bits differ.
    words = (np.asarray(features, np.float64) + 0.0).view(np.uint64)
    if labels is not None:
        # The halves of an integer, or the characters of a text.
        letters = np.ascontiguousarray(as_labels(labels, len(words)))[:, None].view(np.uint32)
        words = np.concatenate([words, letters.astype(np.uint64)], axis=1)
    words = words * MIXER
    # The lowest bits of most numbers are zero: the highest bits are mixed into them.
    words ^= words >> np.uint64(32)
    factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
    return words @ (2 * factors + 1)
