"""A model's answers -> evaluation counts; counts -> the temperature that fits them.

Where statistics give no temperature, evaluation counts do. They hold, for every class, how many
samples of it and of others were given which log odds z. If the temperature is multiplied by T, z
becomes about z / T (exactly for two classes; for more, nearly, if two classes have most of the
probability). T minimises the log loss

    ``sum_c sum_z n_own log(1 + exp(-z / T)) + n_others log(1 + exp(z / T))``.

No predicted class changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.texts import require_type
from safle.errors import InvalidInput
from safle.evaluation.counts import (
    Evaluation,
    bin_log_odds,
    find_cells,
    require_answers,
    shapes,
)
from safle.model.model import BATCH, Model
from safle.model.scores import odds
from safle.solver.heads import HEADS
from safle.tables.checks import as_labels

STEPS_PER_OCTAVE = 16
OCTAVES = 6
"""The grid of T, below 1 and above; it does not move with the last bits of a sum."""


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
    checked = model.encoder.contract.check(features)
    counts = count_answers(model, checked, labels)
    outside = model.watch()
    outside.add(checked)
    outside.warn()
    return counts


def count_answers(model: Model, checked: NDArray[Any], labels: ArrayLike) -> Evaluation:
    """As `evaluate`, for features that the contract has checked; does not warn of values."""
    names = as_labels(labels, len(checked))
    places = {name: place for place, name in enumerate(model.class_names)}
    if len(names) and type(names[0].item()) is not type(model.class_names[0]):
        raise InvalidInput(
            f"labels are like {names[0].item()!r}; expected labels like the model's class "
            f"{model.class_names[0]!r}: use the labels that were counted with"
        )
    total = {name: np.zeros(shape, np.int64) for name, shape in shapes(len(places)).items()}
    for first in range(0, len(checked), BATCH):
        batch = slice(first, first + BATCH)
        for name, cells in _answer(model, places, checked[batch], names[batch]).items():
            np.add.at(total[name].reshape(-1), cells, 1)
    return Evaluation(model.digest, model.class_names, **total)


def _answer(
    model: Model, places: dict[Any, int], checked: NDArray[Any], names: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """The cells of `find_cells` that the answers for some samples are counted in."""
    true = np.array([places.get(name, len(places)) for name in names.tolist()], np.int64)
    scores = model.score_checked(checked)
    batch_odds = odds(scores, model.head, model.temperature or 1.0)
    return find_cells(batch_odds, np.argmax(scores, axis=1), true)


def mark_answers(
    model: Model, checked: NDArray[Any], labels: NDArray[Any], counts: Evaluation
) -> NDArray[np.float64]:
    """Which occupied cells of ``counts`` count each sample, 0 or 1, (samples, occupied)."""
    places = {name: place for place, name in enumerate(model.class_names)}
    found = _answer(model, places, checked, as_labels(labels, len(checked)))
    marks = []
    for name, table in counts.arrays.items():
        occupied = np.flatnonzero(table)
        mark = np.zeros((len(checked), len(occupied)))
        np.put_along_axis(mark, np.searchsorted(occupied, found[name]), 1.0, axis=1)
        marks.append(mark)
    return np.concatenate(marks, axis=1)


def fit_temperature(model: Model, counts: Evaluation) -> Model:
    """The model with the temperature that suits the counts of its answers, summed over sites.

    Parameters
    ----------
    counts : of this same model, on samples that were not counted for it

    Examples
    --------
    >>> import numpy as np, safle
    >>> encoder = safle.LinearEncoder.calibrated(safle.declared_range(0, 1, feature_dim=1))
    >>> features, labels = [[0.1], [0.3], [0.6], [0.9]] * 9, ["low", "low", "high", "high"] * 9
    >>> model = safle.Model.of(encoder, safle.solve(safle.count(encoder, features, labels)))
    >>> unsure = safle.evaluate(model, [[0.2], [0.2], [0.2], [0.8]], ["low", "low", "high", "high"])
    >>> safle.fit_temperature(model, unsure).temperature > model.temperature
    True
    """
    require_type("model", model, Model)
    require_type(
        "counts",
        counts,
        Evaluation,
        advice="evaluate, or partial(read, value_type=Evaluation) of a file",
    )
    require_answers(counts.model, counts.class_names, model.digest, model.class_names)
    if not HEADS[model.head].takes_priors:
        raise InvalidInput(
            f"probabilities of the {model.head} head have no temperature: solve with another head"
        )
    if not counts.class_counts[:-1].sum():
        raise InvalidInput(
            "the counts hold no sample of the model's classes; evaluate samples of them"
        )
    factor = _best_factor(counts.scores.sum(axis=0))
    return model.with_temperature((model.temperature or 1.0) * factor)


def _best_factor(scores: NDArray[np.int64]) -> float:
    """The T of the grid with the least loss; ``scores``, (2, BINS), count others, then own."""
    places = np.flatnonzero(scores.any(axis=0))
    others, own = scores[:, places]
    log_odds = bin_log_odds()[places]
    steps = np.arange(-OCTAVES * STEPS_PER_OCTAVE, OCTAVES * STEPS_PER_OCTAVE + 1)
    grid = 2.0 ** (steps / STEPS_PER_OCTAVE)
    losses = [
        (own * np.logaddexp(0, -log_odds / t) + others * np.logaddexp(0, log_odds / t)).sum()
        for t in grid
    ]
    return float(grid[int(np.argmin(losses))])
