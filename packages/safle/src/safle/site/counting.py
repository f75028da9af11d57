"""Counting at a site: a table -> what would leave, and what a policy judges it by.

Where samples have weights, or rows repeat, the two differ: ten times one patient is one patient.
The command line, the airlock and Flower's simulation count here. `safle.site.sheet.write_release`
asks the policy about the second, writes the log and lets the first go.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.encoders import Encoder
from safle.encoders.features import ClassName
from safle.errors import InvalidInput, SafleWarning
from safle.statistics import Accumulator, Statistics

if TYPE_CHECKING:
    # Whoever counts needs neither a model nor a solver.
    from safle.evaluation.counts import Evaluation
    from safle.model import Model
    from safle.tables import Table

T = TypeVar("T")
Weights = NDArray[np.int64]
COLUMNS_COMPARED = 6
"""So many columns tell nearly all rows apart that differ; only the others are compared whole."""
ROWS_HASHED = 4_096
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Any large odd number: products with it carry every bit of a word upwards."""


class Counts(NamedTuple, Generic[T]):
    """What was counted of a site's samples.

    Attributes
    ----------
    total : a sample of weight w counted w times: what would leave
    once : each different row counted once: what a policy judges; ``total`` itself where no sample
        has a weight and no row repeats another

    >>> Counts(total=10, once=1).once
    1
    """

    total: T
    once: T


def count_table(
    encoder: Encoder,
    table: Table,
    *,
    where: object,
    classes: Sequence[ClassName] | None = None,
    allow_outside: bool = False,
    progress: Callable[[float], None] = lambda _share: None,
) -> Counts[Statistics]:
    """The statistics of a site's labelled table, one batch in memory at a time.

    Parameters
    ----------
    table : with the columns of the encoder, as `safle.tables.open_matching` opens it
    where : the file, which errors name
    classes : the only labels there may be; any if None
    allow_outside : see `safle.count`
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
    >>> counts.total.sample_count, counts.once.sample_count
    (11, 2)
    """
    total = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    once = Accumulator(encoder, classes=classes, allow_outside=True)
    first = find_first(table)
    done = 0

    def add(features: NDArray[Any], labels: NDArray[Any], own: Weights | None) -> None:
        nonlocal done
        total.add_samples(features, labels, own)
        if first is not None:
            once.add_samples(features, labels, first[done : done + len(features)])
        done += len(features)

    table.for_each_batch(add, where=where, progress=progress)
    try:
        statistics = total.snapshot()
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    if first is None:
        return Counts(statistics, statistics)
    with warnings.catch_warnings():
        # What lies outside is said of all samples.
        warnings.simplefilter("ignore", SafleWarning)
        return Counts(statistics, once.snapshot())


def find_first(table: Table) -> NDArray[np.bool_] | None:
    """Samples that count where each row, features and label, counts once; None if all count once.

    Of rows that are equal it is the first, of those that have a weight above zero.
    """
    weights = np.ones(len(table), np.int64) if table.weights is None else table.weights
    counted = np.flatnonzero(weights > 0)
    some = np.unique(np.linspace(0, table.feature_dim - 1, COLUMNS_COMPARED).astype(np.intp))
    few = _hash_rows(block[:, some] for block, _ in table.batches(ROWS_HASHED))[counted]
    ordered = np.sort(few)
    doubtful = counted[np.isin(few, ordered[1:][ordered[1:] == ordered[:-1]])]
    _, labels = np.unique(np.asarray(table.labels)[doubtful], return_inverse=True)
    parts = [slice(at, at + ROWS_HASHED) for at in range(0, len(doubtful), ROWS_HASHED)]
    whole = _hash_rows(
        np.column_stack([table.features[doubtful[part]], labels[part]]) for part in parts
    )
    first = weights > 0
    first[doubtful] = False
    first[doubtful[np.unique(whole, return_index=True)[1]]] = True
    return None if (first == weights).all() else first


def _hash_rows(blocks: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """A number for each row, (rows,); two that differ have the same once in about 2^64 times."""
    hashed = [np.empty(0, np.uint64)]
    for block in blocks:
        # Of equal numbers, zero alone has two patterns of bits.
        words = (np.asarray(block, np.float64) + 0.0).view(np.uint64) * MIXER
        # The lowest bits of most numbers are zero: the highest are added to them.
        words ^= words >> np.uint64(32)
        factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
        hashed.append(words @ (2 * factors + 1))
    return np.concatenate(hashed)


def evaluate_table(
    model: Model,
    table: Table,
    *,
    where: object,
    progress: Callable[[float], None] = lambda _share: None,
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

    nothing = Evaluation.none(model.digest, model.class_names)
    counts, outside = [nothing, nothing], model.watch()
    first = find_first(table)
    done = 0

    def add(features: NDArray[Any], labels: NDArray[Any], own: Weights | None) -> None:
        nonlocal done
        outside.add(model.encoder.check(features))
        times = [own] if first is None else [own, first[done : done + len(features)]]
        for at, found in enumerate(evaluate_each(model, features, labels, times)):
            counts[at] += found
        done += len(features)

    table.for_each_batch(add, where=where, progress=progress)
    outside.warn()
    total, once = counts
    return Counts(total, total if first is None else once)
