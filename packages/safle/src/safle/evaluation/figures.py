"""Evaluation counts -> figures, each with an interval of 95 %.

Shares (accuracy, sensitivity, specificity) have Wilson's interval, and means of shares the
square-and-add interval of Newcombe. The intervals of all others are 1.96 deviations wide to each
side, over `DRAWS` resamples of the counts. Bins are narrow: areas and losses differ from those of
single scores in about the fourth digit.

A sample is in the scores of every class, and counts do not say where. Resamples take the
probability that it lacks of its own class for that of one other: this is true of two classes, and
with more gives nearly the intervals of resampled samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import InvalidInput
from safle.evaluation.counts import Evaluation, bin_probabilities
from safle.tables.checks import ClassName

DRAWS = 200
Z = 1.959963984540054
CALIBRATION_BINS = 15
FIGURES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "F1, mean over classes",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "macro_auc": "AUC, mean over classes",
    "macro_pr_auc": "PR-AUC, mean over classes",
    "brier": "Brier score",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
}
"""Titles, by name."""
CLASS_FIGURES = {
    "precision": "precision",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "f1": "F1",
    "auc": "AUC",
    "pr_auc": "PR-AUC",
}
"""Titles of figures of a single class against all others, by name."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """A figure and the ends of its interval; NaN where it is not defined.

    >>> str(Figure(0.9, 0.85, 0.94))
    '0.900 (0.850 to 0.940)'
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "-"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def to_json(self) -> dict[str, float | None]:
        return without_nan(vars(self))


@dataclass(frozen=True)
class Figures:
    """The figures of a model.

    Attributes
    ----------
    accuracy : share of right answers
    balanced_accuracy : mean sensitivity of the classes that have samples
    macro_f1, macro_auc, macro_pr_auc : means over these classes, each against all others
    sensitivity, specificity : of the positive class where there are two, else means
    brier : mean squared error of probabilities, summed over classes; with two, half of it
    log_loss : mean negative logarithm of the true class's probability
    calibration_error : expected, of the answers' probabilities, in `CALIBRATION_BINS` bins

    Examples
    --------
    >>> from safle import Evaluation
    >>> Figures.of(Evaluation.empty("0" * 64, ["ill", "well"]))
    Traceback (most recent call last):
        ...
    safle.errors.InvalidInput: no sample was evaluated; there is nothing to measure
    """

    accuracy: Figure
    balanced_accuracy: Figure
    macro_f1: Figure
    sensitivity: Figure
    specificity: Figure
    macro_auc: Figure
    macro_pr_auc: Figure
    brier: Figure
    log_loss: Figure
    calibration_error: Figure

    @staticmethod
    def of(evaluation: Evaluation, *, positive: ClassName | None = None, seed: int = 0) -> Figures:
        """Figures of counts.

        Parameters
        ----------
        positive : of two classes, the one whose sensitivity and specificity are shown; None for
            the last
        seed : of the resamples for intervals
        """
        if not evaluation.sample_count:
            raise InvalidInput("no sample was evaluated; there is nothing to measure")
        rates = class_rates(evaluation.confusion)
        chosen = _shown_classes(evaluation, positive)
        right = np.array([np.trace(evaluation.confusion)])
        shares = {
            "accuracy": _mean_share(right, np.array([evaluation.sample_count])),
            "balanced_accuracy": _mean_share(*rates["sensitivity"]),
            "sensitivity": _mean_share(*(counts[chosen] for counts in rates["sensitivity"])),
            "specificity": _mean_share(*(counts[chosen] for counts in rates["specificity"])),
        }
        return Figures(**shares, **_resample(evaluation, seed))

    def to_json(self) -> dict[str, Any]:
        """Every figure by its name: value, low, high; null where it is not defined."""
        return {name: getattr(self, name).to_json() for name in FIGURES}


def without_nan(figures: Mapping[str, float]) -> dict[str, float | None]:
    """Figures as JSON knows them: null where one is not defined."""
    return {name: None if np.isnan(value) else float(value) for name, value in figures.items()}


def class_rates(confusion: NDArray[np.int64]) -> dict[str, tuple[Floats, Floats]]:
    """Numerators and denominators of each class's rates, by name, (class_count,) each."""
    right, true = np.diagonal(confusion), confusion.sum(axis=1)[:-1]
    predicted, n = confusion.sum(axis=0), confusion.sum()
    others = n - true
    return {
        "sensitivity": (right, true),
        "specificity": (others - (predicted - right), others),
        "precision": (right, predicted),
        "f1": (2 * right, true + predicted),
    }


def measure_classes(evaluation: Evaluation) -> list[dict[str, float]]:
    """`CLASS_FIGURES` of each class, by name; NaN where one is not defined."""
    columns = {name: divide(*rate) for name, rate in class_rates(evaluation.confusion).items()}
    columns["auc"] = areas(evaluation.scores)
    columns["pr_auc"] = precision_areas(evaluation.scores)
    places = range(len(evaluation.class_names))
    return [{name: float(columns[name][place]) for name in CLASS_FIGURES} for place in places]


def divide(part: Any, whole: Any) -> Floats:
    """``part / whole``, NaN where there is nothing to divide by."""
    whole = np.asarray(whole, np.float64)
    quotient: Floats = np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)
    return quotient


def _shown_classes(evaluation: Evaluation, positive: ClassName | None) -> slice:
    names = evaluation.class_names
    if positive is not None and positive not in names:
        raise InvalidInput(
            f"positive class {positive!r}; the model has {', '.join(map(str, names))}"
        )
    if len(names) != 2:
        return slice(None)
    at = 1 if positive is None else names.index(positive)
    return slice(at, at + 1)


def _mean_share(part: Floats, whole: Floats) -> Figure:
    """The mean of the shares that have samples; Wilson's intervals, squared and added."""
    part, whole = part[whole > 0].astype(np.float64), whole[whole > 0].astype(np.float64)
    if not len(whole):
        return Figure(np.nan, np.nan, np.nan)
    share, square = part / whole, Z * Z / whole
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * np.sqrt(share * (1 - share) / whole + square / whole / 4)
    mean, count = float(share.mean()), len(share)
    below = float(np.sqrt(((share - middle + half) ** 2).sum())) / count
    above = float(np.sqrt(((middle + half - share) ** 2).sum())) / count
    return Figure(mean, max(mean - below, 0.0), min(mean + above, 1.0))


def _resample(evaluation: Evaluation, seed: int) -> dict[str, Figure]:
    confusion, scores, confidence = evaluation.arrays.values()
    values = _measure(confusion, scores, confidence)
    own_error = _own_error(scores)
    generator = np.random.Generator(np.random.PCG64(seed))
    draws = []
    for _ in range(DRAWS):
        drawn_scores = _draw_scores(scores, generator)
        draw = _measure(generator.poisson(confusion), drawn_scores, generator.poisson(confidence))
        # A sample's squares of other classes grow with that of its own, which is in no other bin.
        draw["brier"] = values["brier"] * float(divide(_own_error(drawn_scores), own_error))
        draws.append(draw)
    figures = {}
    for name, value in values.items():
        drawn = np.array([draw[name] for draw in draws])
        drawn = drawn[~np.isnan(drawn)]
        width = Z * float(drawn.std()) if len(drawn) else np.inf
        highest_value = np.inf if name == "log_loss" else 1.0
        figures[name] = Figure(value, max(value - width, 0.0), min(value + width, highest_value))
    return figures


def _draw_scores(scores: NDArray[np.int64], generator: np.random.Generator) -> Floats:
    """Scores of a resample: a sample is drawn for its own class, and for another it may be."""
    drawn = np.zeros(scores.shape)
    used = scores[:, 1].any(axis=0)
    own = scores[:, 1, used]
    drawn_own = generator.poisson(own)
    drawn[:, 1, used] = drawn_own
    all_own, all_drawn = own.sum(axis=0), drawn_own.sum(axis=0)
    others = max(len(scores) - 1, 1)
    for place in range(len(scores)):
        # Samples in doubt about this class, from the lowest probability of their own, have the
        # highest of this class, in the same order; all further ones are drawn by themselves.
        doubting = _running_sum((all_own - own[place]) / others)
        drawn_doubting = _running_sum((all_drawn - drawn_own[place]) / others)
        bins = np.flatnonzero(scores[place, 0])[::-1]
        ranks = _running_sum(scores[place, 0, bins])
        highest = np.diff(np.interp(ranks, doubting, drawn_doubting))
        further = np.diff(np.maximum(ranks - doubting[-1], 0))
        drawn[place, 0, bins] = highest + generator.poisson(further)
    return drawn


def _running_sum(counts: NDArray[Any]) -> Floats:
    return np.append(0.0, np.cumsum(counts))


def _own_error(scores: NDArray[Any]) -> float:
    """Mean squared error of the true classes' probabilities."""
    own = scores[:, 1].sum(axis=0)
    return float(divide(own @ (1 - bin_probabilities()) ** 2, own.sum()))


def _measure(
    confusion: NDArray[np.int64], scores: NDArray[Any], confidence: NDArray[np.int64]
) -> dict[str, float]:
    true = confusion.sum(axis=1)[:-1]
    n, classes = float(scores[0].sum()), len(scores)
    middles = bin_probabilities()
    squares = (scores[:, 1] @ (1 - middles) ** 2 + scores[:, 0] @ middles**2).sum()
    # As in scikit-learn, one answer that is sure and wrong must not outweigh all others.
    surprise = -np.log(np.maximum(middles, np.finfo(np.float64).eps))
    losses = scores[:, 1].sum(axis=0) @ surprise
    return {
        "macro_f1": _mean(divide(*class_rates(confusion)["f1"])[true > 0]),
        "macro_auc": _mean(areas(scores)),
        "macro_pr_auc": _mean(precision_areas(scores)),
        "brier": float(divide(squares, n)) / (2 if classes == 2 else 1),
        "log_loss": float(divide(losses, scores[:, 1].sum())),
        "calibration_error": _calibration_error(confidence),
    }


def _mean(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def areas(scores: NDArray[Any]) -> Floats:
    """Area under the ROC curve of each class, (class_count,); ties count half."""
    others, own = scores[:, 0].astype(np.float64), scores[:, 1].astype(np.float64)
    below = np.cumsum(others, axis=1) - others / 2
    return divide((own * below).sum(axis=1), own.sum(axis=1) * others.sum(axis=1))


def precision_areas(scores: NDArray[Any]) -> Floats:
    """Average precision of each class, (class_count,), from the highest bin down."""
    others, own = scores[:, 0, ::-1].astype(np.float64), scores[:, 1, ::-1].astype(np.float64)
    right_above, all_above = np.cumsum(own, axis=1), np.cumsum(own + others, axis=1)
    precision = right_above / np.maximum(all_above, 1)
    return divide((own * precision).sum(axis=1), own.sum(axis=1))


def reliability(confidence: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Answers, mean probability and share of right ones in each bin, (CALIBRATION_BINS,)."""
    middles = bin_probabilities()
    bins = np.minimum((middles * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    answered = confidence.sum(axis=0)
    answers, probability_sums, right = (
        np.bincount(bins, weights=weights, minlength=CALIBRATION_BINS)
        for weights in (answered * 1.0, answered * middles, confidence[1])
    )
    return answers.astype(np.float64), divide(probability_sums, answers), divide(right, answers)


def _calibration_error(confidence: NDArray[np.int64]) -> float:
    answers, probability, right = reliability(confidence)
    return float(divide(np.nansum(answers * np.abs(probability - right)), answers.sum()))
