"""model, evaluation counts -> a model with the temperature that fits what was counted.

For heads that statistics tell no temperature for. Counts hold, for every class, how many samples
of it and of others were given which log odds z. With another temperature, T times the one that
they were counted at, these become about z / T (exactly, where there are two classes; else as
far as two of them have all the say), and T is the one of the least log loss of

    ``sum_c sum_z n_own log(1 + exp(-z / T)) + n_others log(1 + exp(z / T))``.

No class changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.basics.arguments import require_type
from safle.errors import InvalidInput
from safle.model.model import Model
from safle.statistics.evaluation import Evaluation, bin_log_odds

STEPS_PER_OCTAVE, OCTAVES = 16, 6
"""The grid of T, below 1 and above; it does not move with the last bits of a sum."""


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
