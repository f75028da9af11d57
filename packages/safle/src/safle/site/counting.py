"""Counting at a site: a table -> what would leave, and what a policy judges it by.

Where samples have weights, the two differ: ten times one patient is one patient. The command line,
the airlock and Flower's simulation count here. `safle.site.sheet.write_release` asks the policy
about the second, writes the log and lets the first go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.encoders import Encoder
from safle.encoders.features import ClassName
from safle.encoders.outside import Outside
from safle.errors import InvalidInput
from safle.statistics import Accumulator, Statistics

if TYPE_CHECKING:
    # Whoever counts needs neither a model nor a solver.
    from safle.evaluation.counts import Evaluation
    from safle.model import Model
    from safle.tables import Table

T = TypeVar("T")
Weights = NDArray[np.int64]


class Counts(NamedTuple, Generic[T]):
    """What was counted of a site's samples.

    Attributes
    ----------
    total : a sample of weight w counted w times: what would leave
    once : each sample counted once: what a policy judges; ``total`` itself without weights

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

    def add(features: NDArray[Any], labels: NDArray[Any], own: Weights | None) -> None:
        total.add_samples(features, labels, own)
        if own is not None:
            once.add_samples(features, labels, own > 0)

    table.for_each_batch(add, where=where, progress=progress)
    try:
        statistics = total.snapshot()
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    return Counts(statistics, statistics if table.weights is None else once.snapshot())


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
    counts, outside = [nothing, nothing], Outside(model.encoder)

    def add(features: NDArray[Any], labels: NDArray[Any], own: Weights | None) -> None:
        outside.add(features)
        times = [None] if own is None else [own, own > 0]
        for at, found in enumerate(evaluate_each(model, features, labels, times)):
            counts[at] += found

    table.for_each_batch(add, where=where, progress=progress)
    outside.warn()
    total, once = counts
    return Counts(total, total if table.weights is None else once)
