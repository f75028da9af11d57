"""model, features and labels -> evaluation counts. See `safle.statistics.evaluation`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.encoders.features import as_labels
from safle.errors import InvalidInput
from safle.model.model import BATCH, Model
from safle.model.probabilities import odds
from safle.statistics.evaluation import Evaluation, count_answers


def evaluate(model: Model, features: ArrayLike, labels: ArrayLike) -> Evaluation:
    """Count how a model answers: what a site sends, and what adds up over sites.

    Parameters
    ----------
    features : finite numbers, (samples, feature_dim)
    labels : (samples,); a class that the model does not know counts as an error

    Examples
    --------
    >>> import safle
    >>> fitted = safle.SafleClassifier().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1])
    >>> counts = safle.evaluate(fitted.model_, [[0.3], [0.7]], [0, 1])
    >>> safle.Figures.of(counts).accuracy.value
    1.0
    """
    rows = np.asarray(features)
    named = as_labels(labels, len(rows))
    known = {name: at for at, name in enumerate(model.class_names)}
    if len(named) and type(named[0].item()) is not type(model.class_names[0]):
        raise InvalidInput(
            f"labels are like {named[0].item()!r}, the model's classes like "
            f"{model.class_names[0]!r}: use the labels that were counted with"
        )
    total = Evaluation.none(model.digest, model.class_names)
    for first in range(0, len(rows), BATCH):
        some = slice(first, first + BATCH)
        true = np.array([known.get(name, len(known)) for name in named[some].tolist()])
        total += _count(model, rows[some], true)
    return total


def _count(model: Model, features: NDArray[Any], true: NDArray[np.int64]) -> Evaluation:
    scores = model.decision_function(features)
    whose = {"model": model.digest, "class_names": model.class_names}
    found = odds(scores, model.head, model.temperature or 1.0)
    return count_answers(found, np.argmax(scores, axis=1), true, **whose)
