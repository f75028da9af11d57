"""A model's answers -> evaluation counts; counts -> the temperature that fits them.

A head that statistics tell no temperature for takes it from counts, which hold, for every class,
how many samples of it and of others were given which log odds z. With another temperature, T times
the one that they were counted at, these become about z / T (exactly, where there are two classes;
else as far as two of them have all the say), and T is the one of the least log loss of

    ``sum_c sum_z n_own log(1 + exp(-z / T)) + n_others log(1 + exp(z / T))``.

No class changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.texts import require_type
from safle.encoders.features import as_labels, as_weights
from safle.errors import InvalidInput
from safle.evaluation.counts import Evaluation, bin_log_odds, find_cells, shapes
from safle.model.model import BATCH, Model
from safle.model.scores import odds

STEPS_PER_OCTAVE, OCTAVES = 16, 6
"""The grid of T, below 1 and above; it does not move with the last bits of a sum."""


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
    outside = model.watch()
    outside.add(model.encoder.check(np.asarray(features)))
    outside.warn()
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
    arrays = shapes(len(known)).items()
    totals = [{name: np.zeros(shape, np.int64) for name, shape in arrays} for _ in weights]
    for first in range(0, len(rows), BATCH):
        some = slice(first, first + BATCH)
        true = np.array([known.get(name, len(known)) for name in named[some].tolist()])
        scores = model.score_checked(model.encoder.check(rows[some]))
        found = odds(scores, model.head, model.temperature or 1.0)
        for name, places in find_cells(found, np.argmax(scores, axis=1), true).items():
            for total, own in zip(totals, times, strict=True):
                # In integers: a sum of weights as floating point would be rounded.
                np.add.at(total[name].reshape(-1), places, own[some, None])
    return [Evaluation(model.digest, model.class_names, **total) for total in totals]


def fit_temperature(model: Model, counts: Evaluation) -> Model:
    """The model with the temperature that suits the counts of its answers, summed over sites.

    Parameters
    ----------
    counts : of this very model, on samples that it was not made of

    Examples
    --------
    >>> import numpy as np, safle
    >>> encoder = safle.LinearEncoder.calibrated(safle.DeclaredRange(0, 1, feature_dim=1))
    >>> features, labels = [[0.1], [0.3], [0.6], [0.9]] * 9, ["low", "low", "high", "high"] * 9
    >>> model = safle.Model(encoder, safle.solve(safle.count(encoder, features, labels)))
    >>> unsure = safle.evaluate(model, [[0.2], [0.2], [0.2], [0.8]], ["low", "low", "high", "high"])
    >>> safle.fit_temperature(model, unsure).temperature > model.temperature
    True
    """
    require_type("model", model, Model)
    require_type("counts", counts, Evaluation, advice="evaluate, or read_evaluation of a file")
    counts.require(model.digest, model.class_names)
    if model.head == "least-squares":
        raise InvalidInput(
            "probabilities of the least-squares head have no temperature: solve with another head"
        )
    if not counts.class_counts[:-1].sum():
        raise InvalidInput("the counts hold no sample of the model's classes; nothing to fit")
    factor = _best(counts.scores.sum(axis=0))
    return model.with_temperature((model.temperature or 1.0) * factor)


def _best(scores: NDArray[np.int64]) -> float:
    """T of the grid with the least loss, of counts of others and of own, (2, BINS)."""
    places = np.flatnonzero(scores.any(axis=0))
    others, own = scores[:, places]
    odds = bin_log_odds()[places]
    steps = np.arange(-OCTAVES * STEPS_PER_OCTAVE, OCTAVES * STEPS_PER_OCTAVE + 1)
    grid = 2.0 ** (steps / STEPS_PER_OCTAVE)
    losses = [
        (own * np.logaddexp(0, -odds / t) + others * np.logaddexp(0, odds / t)).sum() for t in grid
    ]
    return float(grid[int(np.argmin(losses))])
