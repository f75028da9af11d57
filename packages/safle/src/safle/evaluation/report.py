"""Evaluation counts as people and programs read them: one place for every presentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.templates import render_page
from safle.evaluation.counts import Evaluation
from safle.evaluation.figures import (
    CLASS_FIGURES,
    FIGURES,
    Figures,
    measure_classes,
    reliability,
    without_nan,
)
from safle.tables.checks import ClassName

MAX_MATRIX = 20
"""More classes than this do not fit a terminal; their worst confusions are listed."""
MAX_PAIRS = 10
SITES_PER_TABLE = 4
CLASS_TITLES = ("class", *CLASS_FIGURES.values(), "samples")
UNKNOWN = "(unknown to the model)"
MAX_CURVES = 10
"""More lines cannot be distinguished; those of the classes with most samples are drawn."""
MAX_CELLS = 40
SIDE = 200
"""Side of a chart's square, in the chart's own units."""
Counts = NDArray[np.int64]
Curve = Callable[[Counts, Counts], tuple[NDArray[Any], NDArray[Any]]]

HARDLY = 0.5
"""A rare class of which a smaller share is predicted right is named."""
MIN_SAMPLES = 5
"""Of fewer samples the share says too little."""


@dataclass(frozen=True)
class EvaluationReport:
    """Counts of answers as figures: in words, as JSON, as a page.

    Attributes
    ----------
    counts : of all sites together
    sites : counts of each site, by name; empty where only the sum is known
    positive : of two classes, the one whose sensitivity is shown; None for the last

    Examples
    --------
    >>> import safle
    >>> fitted = safle.SafleClassifier().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1])
    >>> report = EvaluationReport(safle.evaluate(fitted.model_, [[0.3], [0.7]], [0, 1]))
    >>> report.facts()["accuracy"], report.to_json()["confusion"]
    ('100.00% (2 of 2; 34.2% to 100.0%)', [[1, 0], [0, 1], [0, 0]])
    """

    counts: Evaluation
    sites: Mapping[str, Evaluation] = field(default_factory=dict)
    positive: ClassName | None = None

    @cached_property
    def figures(self) -> Figures:
        """Figures of all sites together."""
        return Figures.of(self.counts, positive=self.positive)

    @cached_property
    def figures_of_sites(self) -> dict[str, Figures]:
        """Figures of each site that has samples."""
        return {
            name: Figures.of(counts, positive=self.positive)
            for name, counts in self.sites.items()
            if counts.sample_count
        }

    @cached_property
    def names(self) -> list[str]:
        """Names of the confusion matrix's rows."""
        unknown = [UNKNOWN] if self.counts.class_counts[-1] else []
        return [*map(str, self.counts.class_names), *unknown]

    @property
    def matrix(self) -> Counts:
        """The confusion matrix, with a row for each of `names`."""
        return self.counts.confusion[: len(self.names)]

    @property
    def largest_class(self) -> float:
        """Accuracy of always naming the most frequent class."""
        return float(self.counts.class_counts[:-1].max()) / self.counts.sample_count

    @property
    def never_predicted(self) -> list[ClassName]:
        """Classes of the model that were never predicted."""
        predicted = self.counts.confusion.sum(axis=0)
        return [self.counts.class_names[place] for place in np.flatnonzero(predicted == 0)]

    @property
    def hardly_found(self) -> dict[ClassName, str]:
        """Classes rarer than the mean of which few samples are predicted right, and how few."""
        counted = self.counts.class_counts[:-1]
        right = np.diagonal(self.counts.confusion)
        rare = (counted >= MIN_SAMPLES) & (counted < counted.mean())
        places = np.flatnonzero(rare & (right < HARDLY * counted))
        names = self.counts.class_names
        return {names[at]: f"{right[at]:,} of {counted[at]:,}" for at in places}

    def facts(self) -> dict[str, object]:
        """Titles and figures of all sites together, as text."""
        right = int(np.trace(self.counts.confusion))
        total = self.counts.sample_count
        shown: dict[str, object] = {
            title: str(getattr(self.figures, name)) for name, title in FIGURES.items()
        }
        accuracy = self.figures.accuracy
        shown["accuracy"] = (
            f"{accuracy.value:.2%} ({right:,} of {total:,}; {accuracy.low:.1%} to "
            f"{accuracy.high:.1%})"
        )
        shown["always the most frequent class"] = f"{self.largest_class:.2%}"
        if self.never_predicted:
            shown["never predicted"] = ", ".join(map(str, self.never_predicted))
        if hardly := self.hardly_found:
            shown["hardly found"] = ", ".join(f"{name} ({few})" for name, few in hardly.items())
        if len(self.counts.class_names) == 2:
            positive = self.counts.class_names[-1] if self.positive is None else self.positive
            shown["sensitivity"] = f"{shown['sensitivity']} of {positive}"
        return shown

    def rows(self) -> list[list[str]]:
        """A row for each class, with the columns `CLASS_TITLES`."""
        measured = measure_classes(self.counts)
        shown = [[f"{x:.1%}" if x == x else "-" for x in row.values()] for row in measured]
        shown.append(["-"] * len(CLASS_FIGURES))
        counted = self.counts.class_counts.tolist()
        return [[name, *shown[at], f"{counted[at]:,}"] for at, name in enumerate(self.names)]

    def site_tables(self) -> Iterator[list[list[str]]]:
        """Tables of figures with titles; sites are columns, `SITES_PER_TABLE` to a table."""
        names = list(self.figures_of_sites)
        for first in range(0, len(names), SITES_PER_TABLE):
            sites = names[first : first + SITES_PER_TABLE]
            counted = [f"{self.sites[name].sample_count:,}" for name in sites]
            figures = [self.figures_of_sites[name] for name in sites]
            rows = [[title, *(str(getattr(f, k)) for f in figures)] for k, title in FIGURES.items()]
            yield [["", *sites], ["samples", *counted], *rows]

    def confusion_lines(self) -> list[str]:
        """The matrix as text, or its largest errors if there are many classes."""
        if len(self.names) > MAX_MATRIX:
            return self._worst_lines()
        cells = [["true \\ predicted", *map(str, self.counts.class_names)]]
        for name, row in zip(self.names, self.matrix.tolist(), strict=True):
            cells.append([name, *(str(count) if count else "." for count in row)])
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        return [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in cells
        ]

    def _worst_lines(self) -> list[str]:
        errors = self.matrix.copy()
        np.fill_diagonal(errors, 0)
        order = np.argsort(-errors, axis=None, kind="stable")[:MAX_PAIRS]
        pairs = [divmod(int(at), errors.shape[1]) for at in order]
        return [
            f"the most frequent confusions of {len(self.names)} classes:",
            *(
                f"  {self.names[true]} taken for {self.names[predicted]}: {errors[true, predicted]}"
                for true, predicted in pairs
                if errors[true, predicted]
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """All figures; null where one is not defined."""
        *counted, unknown = self.counts.class_counts.tolist()
        classes = zip(self.counts.class_names, measure_classes(self.counts), counted, strict=True)
        return {
            "model": self.counts.model,
            "samples": self.counts.sample_count,
            "accuracy": self.figures.accuracy.value,
            "balanced_accuracy": self.figures.balanced_accuracy.value,
            "always_most_frequent_class": self.largest_class,
            "never_predicted": self.never_predicted,
            "figures": self.figures.to_json(),
            "classes": [
                {"name": name, **without_nan(measured), "support": samples}
                for name, measured, samples in classes
            ],
            "unknown": unknown,
            "confusion": self.counts.confusion.tolist(),
            "sites": [
                {"name": name, "samples": self.sites[name].sample_count, **figures.to_json()}
                for name, figures in self.figures_of_sites.items()
            ],
        }

    def to_html(self) -> str:
        """A page of all figures, without scripts and without requests to other hosts."""
        counts = self.counts
        sites = {name: (self.sites[name], f) for name, f in self.figures_of_sites.items()}
        drawn = self._drawn_classes()
        shown = self.matrix if len(counts.class_names) <= MAX_CELLS else self.matrix[:0]
        return render_page(
            ["safle.evaluation"],
            "evaluation.html.j2",
            counts=counts,
            titles=FIGURES,
            largest_class=self.largest_class,
            never_predicted=self.never_predicted,
            columns={"all sites" if sites else "all samples": (counts, self.figures), **sites},
            drawn=[self.names[place] for place in drawn],
            charts={
                "ROC curve": ("1 - specificity", "sensitivity", _curves(counts, drawn, _roc)),
                "Precision and recall": ("recall", "precision", _curves(counts, drawn, _recall)),
            },
            bars=_bars(counts),
            class_titles=CLASS_TITLES,
            classes=self.rows(),
            class_names=counts.class_names,
            confusion=dict(zip(self.names, shown.tolist(), strict=False)),
            side=SIDE,
        )

    def _drawn_classes(self) -> list[int]:
        """Classes whose curves are drawn: of two, the positive one."""
        names = self.counts.class_names
        if len(names) == 2:
            return [1 if self.positive is None else names.index(self.positive)]
        order = np.argsort(-self.counts.class_counts[:-1], kind="stable")[:MAX_CURVES]
        return sorted(order.tolist())


def _curves(counts: Evaluation, drawn: list[int], curve: Curve) -> list[str]:
    """Points of a curve of each class, as SVG writes them; none where it cannot be drawn."""
    curves = []
    for place in drawn:
        used = counts.scores[place][:, counts.scores[place].any(axis=0)]
        # Samples of other classes, and of this one, with at least the probability of each bin.
        others, own = np.cumsum(used[:, ::-1], axis=1)
        line = np.stack(curve(others, own), axis=1) if others[-1] and own[-1] else np.empty((0, 2))
        curves.append(" ".join(f"{SIDE * x:.1f},{SIDE * (1 - y):.1f}" for x, y in line))
    return curves


def _roc(others: Counts, own: Counts) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.append(0, others / others[-1]), np.append(0, own / own[-1])


def _recall(others: Counts, own: Counts) -> tuple[NDArray[Any], NDArray[Any]]:
    # With no answers at all, precision is 1 by convention.
    return np.append(0, own / own[-1]), np.append(1, own / (own + others))


def _bars(counts: Evaluation) -> list[dict[str, float]]:
    """Bars of the reliability diagram: place, and shares of 1."""
    answers, probability, right = reliability(counts.confidence)
    return [
        {
            "x": at / len(answers),
            "width": 1 / len(answers),
            "right": right[at],
            "probability": probability[at],
            "share": answers[at] / answers.max(),
            "answers": answers[at],
        }
        for at in np.flatnonzero(answers).tolist()
    ]
