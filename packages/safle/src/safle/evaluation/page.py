"""Evaluation counts -> one page, without scripts, that asks no other host for anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.basics.templates import render_page
from safle.encoders.features import ClassName
from safle.evaluation.figures import FIGURES, Figures, by_class, reliability
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
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """A curve of a class: its points, as SVG writes them."""

    name: str
    colour: str
    points: str


def write_page(
    counts: Evaluation,
    figures: Figures,
    sites: Mapping[str, tuple[Evaluation, Figures]],
    positive: ClassName | None = None,
) -> str:
    """The page, as HTML.

    Parameters
    ----------
    counts, figures : of all sites together
    sites : of each site, by name; empty where they are not told apart
    positive : the class whose curves are drawn where there are two; None for the last
    """
    drawn = _drawn(counts, positive)
    return render_page(
        "safle.evaluation",
        "evaluation.html.j2",
        counts=counts,
        titles=FIGURES,
        columns={"all sites" if sites else "all samples": (counts, figures), **sites},
        charts={
            "ROC curve": ("1 - specificity", "sensitivity", _lines(counts, drawn, _roc)),
            "Precision and recall": ("recall", "precision", _lines(counts, drawn, _recall)),
        },
        bars=_bars(counts),
        classes=_classes(counts),
        matrix=_matrix(counts),
        side=SIDE,
    )


def _drawn(counts: Evaluation, positive: ClassName | None) -> list[int]:
    names = counts.class_names
    if len(names) == 2:
        return [1 if positive is None else names.index(positive)]
    order = np.argsort(-counts.class_counts[:-1], kind="stable")[:CURVES_SHOWN]
    return sorted(order.tolist())


def _lines(counts: Evaluation, drawn: list[int], curve: object) -> list[Line]:
    assert callable(curve)
    lines = []
    for place, colour in zip(drawn, COLOURS, strict=False):
        x, y = curve(counts.scores[place, :, ::-1].astype(np.float64))
        points = " ".join(f"{SIDE * a:.1f},{SIDE * (1 - b):.1f}" for a, b in zip(x, y, strict=True))
        lines.append(Line(str(counts.class_names[place]), colour, points))
    return lines


def _roc(scores: Floats) -> tuple[Floats, Floats]:
    """From the most certain down; nothing where a class, or all others, has no sample."""
    others, own = np.cumsum(scores, axis=1)
    if not others[-1] * own[-1]:
        return np.zeros(0), np.zeros(0)
    kept = scores.any(axis=0)
    start = np.zeros(1)
    return (
        np.concatenate([start, others[kept] / others[-1]]),
        np.concatenate([start, own[kept] / own[-1]]),
    )


def _recall(scores: Floats) -> tuple[Floats, Floats]:
    others, own = np.cumsum(scores, axis=1)
    if not own[-1]:
        return np.zeros(0), np.zeros(0)
    kept = scores.any(axis=0)
    precision = own[kept] / (own + others)[kept]
    start = np.zeros(1)
    return np.concatenate([start, own[kept] / own[-1]]), np.concatenate([precision[:1], precision])


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


def _classes(counts: Evaluation) -> list[list[str]]:
    rows = zip(counts.class_names, by_class(counts).T, counts.class_counts.tolist(), strict=False)
    return [
        [str(name), *("-" if np.isnan(x) else f"{x:.3f}" for x in shown), f"{many:,}"]
        for name, shown, many in rows
    ]


def _matrix(counts: Evaluation) -> list[tuple[str, list[tuple[int, float]]]]:
    """Rows of (name, cells), a cell a count and its share of the row; none if there are many."""
    if len(counts.class_names) > CELLS_SHOWN:
        return []
    names = [*map(str, counts.class_names), "(unknown to the model)"]
    rows = []
    for name, row in zip(names, counts.confusion.tolist(), strict=True):
        if sum(row) or name in names[:-1]:
            rows.append((name, [(count, count / max(sum(row), 1)) for count in row]))
    return rows
