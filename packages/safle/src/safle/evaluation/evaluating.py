"""model, features and labels -> evaluation counts. See `safle.statistics.evaluation`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from safle.encoders.features import as_labels, as_weights
from safle.errors import InvalidInput
from safle.model.model import BATCH, Model
from safle.model.probabilities import odds
from safle.statistics.evaluation import Evaluation, count_answers


def evaluate(
    model: Model, features: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None
) -> Evaluation:
    """Count how a model answers: what a site sends, and what adds up over sites.

    Parameters
    ----------
    features : finite numbers, (samples, feature_dim)
    labels : (samples,); a class that the model does not know counts as an error
    weights : whole numbers, (samples,); a sample of weight w counts as w samples, once if None

    Examples
    --------
    >>> import safle
    >>> fitted = safle.SafleClassifier().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1])
    >>> counts = safle.evaluate(fitted.model_, [[0.3], [0.7]], [0, 1])
    >>> safle.Figures.of(counts).accuracy.value
    1.0
    """
    (counts,) = evaluate_each(model, features, labels, [weights])
    return counts


def evaluate_each(
    model: Model, features: ArrayLike, labels: ArrayLike, weights: Sequence[ArrayLike | None]
) -> list[Evaluation]:
    """As `evaluate`, by each of several weights; every sample is predicted once."""
    rows = np.asarray(features)
    named = as_labels(labels, len(rows))
    known = {name: at for at, name in enumerate(model.class_names)}
    if len(named) and type(named[0].item()) is not type(model.class_names[0]):
        raise InvalidInput(
            f"labels are like {named[0].item()!r}, the model's classes like "
            f"{model.class_names[0]!r}: use the labels that were counted with"
        )
    once = np.ones(len(rows), np.int64)
    times = [once if own is None else as_weights(own, len(rows)) for own in weights]
    totals = [Evaluation.none(model.digest, model.class_names) for _ in weights]
    for first in range(0, len(rows), BATCH):
        some = slice(first, first + BATCH)
        true = np.array([known.get(name, len(known)) for name in named[some].tolist()])
        scores = model.decision_function(rows[some])
        found = odds(scores, model.head, model.temperature or 1.0)
        taken = np.argmax(scores, axis=1)
        whose = {"model": model.digest, "class_names": model.class_names}
        for at, own in enumerate(times):
            totals[at] += count_answers(found, taken, true, own[some], **whose)
    return totals
