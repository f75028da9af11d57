"""Evaluation counts -> figures, with an interval of 95 % where a method is known.

Shares (accuracy, sensitivity, specificity) have Wilson's interval, and means of shares the
square-and-add interval of Newcombe. An AUC has the interval of DeLong, DeLong and Clarke-Pearson
(Biometrics 44, 1988): with v_i the share of other samples below sample i of the class, and w_j the
share of the class above sample j of the others, ties counted half,

    ``variance(AUC) = variance(v) / samples + variance(w) / others``.

Counts do not show how the areas of several classes vary together. The interval of their mean
assumes that they vary as one. That is exact for two classes; for more, the interval is too wide.

Bins are narrow: areas and losses differ from those of single scores in about the fourth digit.
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
    """A figure and the ends of its interval; NaN where they are not defined.

    >>> str(Figure(0.9, 0.85, 0.94)), str(Figure(0.9))
    ('0.900 (0.850 to 0.940)', '0.900')
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "-"
        if np.isnan(self.low):
            return f"{self.value:.3f}"
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
    def of(evaluation: Evaluation, *, positive: ClassName | None = None) -> Figures:
        """Figures of counts.

        Parameters
        ----------
        positive : of two classes, the one whose sensitivity and specificity are shown; None for
            the last
        """
        if not evaluation.sample_count:
            raise InvalidInput("no sample was evaluated; there is nothing to measure")
        rates = class_rates(evaluation.confusion)
        chosen = _shown_classes(evaluation, positive)
        right = np.array([np.trace(evaluation.confusion)])
        f1 = divide(*rates["f1"])
        occurring = evaluation.class_counts[:-1] > 0
        return Figures(
            accuracy=_mean_share(right, np.array([evaluation.sample_count])),
            balanced_accuracy=_mean_share(*rates["sensitivity"]),
            sensitivity=_mean_share(*(counts[chosen] for counts in rates["sensitivity"])),
            specificity=_mean_share(*(counts[chosen] for counts in rates["specificity"])),
            macro_f1=Figure(_mean(f1[occurring])),
            macro_auc=_mean_area(evaluation.scores),
            macro_pr_auc=Figure(_mean(precision_areas(evaluation.scores))),
            brier=Figure(_brier_score(evaluation.scores)),
            log_loss=Figure(_log_loss(evaluation.scores)),
            calibration_error=Figure(_calibration_error(evaluation.confidence)),
        )

    def to_json(self) -> dict[str, Any]:
        """Every figure by its name: value, low, high; null where it is not defined."""
        return {name: getattr(self, name).to_json() for name in FIGURES}


def without_nan(figures: Mapping[str, float]) -> dict[str, float | None]:
    """Figures as JSON knows them: null where one is not defined."""
    return {name: None if np.isnan(value) else float(value) for name, value in figures.items()}


def class_rates(confusion: NDArray[np.int64]) -> dict[str, tuple[Floats, Floats]]:
    """Numerators and denominators of each class's rates, by name, (class_count,) each."""
    right = np.diagonal(confusion)
    true = confusion.sum(axis=1)[:-1]
    predicted = confusion.sum(axis=0)
    others = confusion.sum() - true
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
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)


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
    part = part[whole > 0].astype(np.float64)
    whole = whole[whole > 0].astype(np.float64)
    if not len(whole):
        return Figure(np.nan)
    share = part / whole
    square = Z * Z / whole
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * np.sqrt(share * (1 - share) / whole + square / whole / 4)
    mean = float(share.mean())
    count = len(share)
    below = float(np.sqrt(((share - middle + half) ** 2).sum())) / count
    above = float(np.sqrt(((middle + half - share) ** 2).sum())) / count
    return Figure(mean, max(mean - below, 0.0), min(mean + above, 1.0))


def _mean_area(scores: NDArray[np.int64]) -> Figure:
    """The mean of the classes' areas, and the mean of their deviations to each side.

    Without an interval where all are ranked right: nothing varies, so it cannot be estimated.
    """
    values = areas(scores)
    defined = ~np.isnan(values)
    if not defined.any():
        return Figure(np.nan)
    mean = float(values[defined].mean())
    half = Z * float(area_deviations(scores)[defined].mean())
    if not half > 0:
        return Figure(mean)
    return Figure(mean, max(mean - half, 0.0), min(mean + half, 1.0))


def _brier_score(scores: NDArray[np.int64]) -> float:
    middles = bin_probabilities()
    squares = (scores[:, 1] @ (1 - middles) ** 2 + scores[:, 0] @ middles**2).sum()
    samples = scores[0].sum()
    return float(divide(squares, samples)) / (2 if len(scores) == 2 else 1)


def _log_loss(scores: NDArray[np.int64]) -> float:
    # As in scikit-learn, one confident wrong answer must not outweigh all others.
    surprise = -np.log(np.maximum(bin_probabilities(), np.finfo(np.float64).eps))
    own = scores[:, 1].sum(axis=0)
    return float(divide(own @ surprise, own.sum()))


def _mean(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def areas(scores: NDArray[Any]) -> Floats:
    """Area under the ROC curve of each class, (class_count,); ties count half."""
    others = scores[:, 0].astype(np.float64)
    own = scores[:, 1].astype(np.float64)
    return divide((own * _below(others)).sum(axis=1), own.sum(axis=1) * others.sum(axis=1))


def area_deviations(scores: NDArray[Any]) -> Floats:
    """Standard deviation of each area, (class_count,), by DeLong; NaN with less than two samples.

    >>> scores = np.zeros((1, 2, 1024), np.int64)
    >>> scores[0, 0, [0, 2]] = scores[0, 1, [1, 3]] = 50
    >>> float(areas(scores)[0]), round(float(area_deviations(scores)[0]), 4)
    (0.75, 0.0355)
    """
    others = scores[:, 0].astype(np.float64)
    own = scores[:, 1].astype(np.float64)
    samples = own.sum(axis=1)
    other_samples = others.sum(axis=1)
    above = samples[:, None] - _below(own)
    of_own = _variance(divide(_below(others), other_samples[:, None]), own)
    of_others = _variance(divide(above, samples[:, None]), others)
    return np.sqrt(divide(of_own, samples) + divide(of_others, other_samples))


def _below(counts: Floats) -> Floats:
    """How many lie below each bin, half of its own among them."""
    return np.cumsum(counts, axis=1) - counts / 2


def _variance(values: Floats, counts: Floats) -> Floats:
    """The variance of values that occur ``counts`` times, row by row; NaN for fewer than two."""
    times = counts.sum(axis=1)
    values = np.where(counts > 0, values, 0.0)
    mean = divide((counts * values).sum(axis=1), times)
    return divide((counts * (values - mean[:, None]) ** 2).sum(axis=1), times - 1)


def precision_areas(scores: NDArray[Any]) -> Floats:
    """Average precision of each class, (class_count,), from the highest bin down."""
    others = scores[:, 0, ::-1].astype(np.float64)
    own = scores[:, 1, ::-1].astype(np.float64)
    all_above = np.cumsum(own + others, axis=1)
    precision = np.cumsum(own, axis=1) / np.maximum(all_above, 1)
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
