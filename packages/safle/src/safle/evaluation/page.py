"""Evaluation counts -> one page, without scripts, that asks no other host for anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from safle.basics.templates import render_page
from safle.evaluation.figures import FIGURES, reliability
from safle.evaluation.report import CLASS_TITLES, Report
from safle.statistics.evaluation import Evaluation

CURVES_SHOWN = 10
"""More lines than this cannot be told apart; those of the classes with most samples are drawn."""
CELLS_SHOWN = 40
COLOURS = (
    *("#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1"),
    *("#b7791f", "#2c7a7b", "#c53030", "#4a5568", "#a0aec0"),
)
SIDE = 200
"""Of a chart's square, in its own units."""
Curve = Callable[..., tuple[Any, Any]]


@dataclass(frozen=True)
class Line:
    """A curve of a class: its points, as SVG writes them."""

    name: str
    colour: str
    points: str


def write_page(report: Report) -> str:
    """The page, as HTML."""
    counts = report.counts
    sites = {name: (report.sites[name], of) for name, of in report.figures_of_sites.items()}
    drawn = _drawn(report)
    return render_page(
        "safle.evaluation",
        "evaluation.html.j2",
        counts=counts,
        titles=FIGURES,
        columns={"all sites" if sites else "all samples": (counts, report.figures), **sites},
        charts={
            "ROC curve": ("1 - specificity", "sensitivity", _lines(counts, drawn, _roc)),
            "Precision and recall": ("recall", "precision", _lines(counts, drawn, _recall)),
        },
        bars=_bars(counts),
        class_titles=CLASS_TITLES,
        classes=report.rows(),
        matrix=_matrix(report),
        side=SIDE,
    )


def _drawn(report: Report) -> list[int]:
    """Classes whose curves are drawn: of two, the positive one."""
    names = report.counts.class_names
    if len(names) == 2:
        return [1 if report.positive is None else names.index(report.positive)]
    order = np.argsort(-report.counts.class_counts[:-1], kind="stable")[:CURVES_SHOWN]
    return sorted(order.tolist())


def _lines(counts: Evaluation, drawn: list[int], curve: Curve) -> list[Line]:
    """A curve of each class, over its bins; nothing where it, or all others, has no sample."""
    lines = []
    bins = counts.scores.shape[2]
    own = np.repeat([False, True], bins)
    for place, colour in zip(drawn, COLOURS, strict=False):
        times = counts.scores[place].ravel()
        points = ""
        if times[own].any() and times[~own].any():
            line = zip(*curve(own, np.tile(np.arange(bins), 2), sample_weight=times), strict=True)
            points = " ".join(f"{SIDE * x:.1f},{SIDE * (1 - y):.1f}" for x, y in line)
        lines.append(Line(str(counts.class_names[place]), colour, points))
    return lines


def _roc(*answers: Any, **weights: Any) -> tuple[Any, Any]:
    others, own, _ = roc_curve(*answers, **weights)
    return others, own


def _recall(*answers: Any, **weights: Any) -> tuple[Any, Any]:
    precision, recall, _ = precision_recall_curve(*answers, **weights, drop_intermediate=True)
    return recall[::-1], precision[::-1]


def _bars(counts: Evaluation) -> list[dict[str, float]]:
    """Of the reliability diagram: where, how high, what was promised, and of how many."""
    many, promised, right = reliability(counts.confidence)
    width, most = SIDE / len(many), many.max()
    return [
        {
            "x": at * width,
            "width": width,
            "right": SIDE * right[at],
            "promised": SIDE * promised[at],
            "share": many[at] / most,
            "many": many[at],
            "promised_share": promised[at],
            "right_share": right[at],
        }
        for at in np.flatnonzero(many).tolist()
    ]


def _matrix(report: Report) -> list[tuple[str, list[tuple[int, float]]]]:
    """Rows of (name, cells), a cell a count and its share of the row; none if there are many."""
    if len(report.counts.class_names) > CELLS_SHOWN:
        return []
    rows = zip(report.names, report.counts.confusion.tolist(), strict=False)
    return [(name, [(count, count / max(sum(row), 1)) for count in row]) for name, row in rows]
