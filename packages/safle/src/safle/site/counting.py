"""Counting at a site: blocks of a table -> what would leave, and what a policy judges it by.

Where samples have weights, the two differ: ten times one patient is one patient. `Release.of`
describes the second, and `safle.site.sheet.write_release` or `safle.site.policy.let_out` asks the
policy, writes the log and lets the first go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.encoders import Encoder
from safle.encoders.features import ClassName
from safle.encoders.outside import Outside
from safle.errors import InvalidInput, TableError
from safle.evaluation.counts import Evaluation
from safle.statistics import Accumulator, Statistics

if TYPE_CHECKING:
    from safle.model import Model

T = TypeVar("T")
Block = tuple[NDArray[Any], NDArray[Any] | None]
"""Features, (samples, feature_dim), and their labels, (samples,)."""
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


def count_blocks(
    encoder: Encoder,
    blocks: Iterable[Block],
    weights: Weights | None = None,
    *,
    where: object,
    classes: Sequence[ClassName] | None = None,
    allow_outside: bool = False,
) -> Counts[Statistics]:
    """The statistics of a site's samples, one block in memory at a time.

    Parameters
    ----------
    blocks : as `safle.tables.Table.batches` yields them, in the encoder's order of columns
    weights : how often each sample is counted, in the order of the blocks; once if None
    where : the file, which errors name
    classes : the only labels there may be; any if None
    allow_outside : see `safle.count`

    Examples
    --------
    >>> import numpy as np
    >>> from safle import DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> block = np.array([[0.1], [0.9]]), np.array(["ill", "well"])
    >>> counts = count_blocks(encoder, [block], np.array([10, 1]), where="ward.csv")
    >>> counts.total.sample_count, counts.once.sample_count
    (11, 2)
    """
    total = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    once = Accumulator(encoder, classes=classes, allow_outside=True)

    def add(features: NDArray[Any], labels: NDArray[Any], own: Weights | None) -> None:
        total.add_samples(features, labels, own)
        if own is not None:
            once.add_samples(features, labels, own > 0)

    _for_each(blocks, weights, where, add)
    with naming_batch(where, 0):
        statistics = total.snapshot()
    return Counts(statistics, statistics if weights is None else once.snapshot())


def evaluate_blocks(
    model: Model, blocks: Iterable[Block], weights: Weights | None = None, *, where: object
) -> Counts[Evaluation]:
    """How a model answers on a site's samples; each is predicted once. See `count_blocks`.

    Examples
    --------
    >>> import numpy as np
    >>> from safle import SafleClassifier
    >>> model = SafleClassifier().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1]).model_
    >>> block = np.array([[0.3], [0.7]]), np.array([0, 1])
    >>> evaluate_blocks(model, [block], np.array([5, 0]), where="ward.csv").total.sample_count
    5
    """
    # Whoever counts needs neither a model nor a solver.
    from safle.evaluation.evaluating import evaluate_each

    nothing = Evaluation.none(model.digest, model.class_names)
    counts, outside = [nothing, nothing], Outside(model.encoder)

    def add(features: NDArray[Any], labels: NDArray[Any], own: Weights | None) -> None:
        outside.add(features)
        times = [None] if own is None else [own, own > 0]
        for at, found in enumerate(evaluate_each(model, features, labels, times)):
            counts[at] += found

    _for_each(blocks, weights, where, add)
    outside.warn()
    total, once = counts
    return Counts(total, total if weights is None else once)


def _for_each(
    blocks: Iterable[Block],
    weights: Weights | None,
    where: object,
    add: Callable[[NDArray[Any], NDArray[Any], Weights | None], None],
) -> None:
    done = 0
    for features, labels in blocks:
        if labels is None:
            raise TableError(
                f"{where}: has no labels; expected one per sample: name their column or file"
            )
        own = None if weights is None else weights[done : done + len(labels)]
        with naming_batch(where, done):
            add(features, labels, own)
        done += len(labels)


@contextmanager
def naming_batch(where: object, first: int) -> Iterator[None]:
    """Errors about samples name their file and, by its ``first`` sample, their batch."""
    try:
        yield
    except InvalidInput as error:
        batch = f", in the batch that begins with sample {first}" if first else ""
        raise InvalidInput(f"{where}{batch}: {error}") from error
