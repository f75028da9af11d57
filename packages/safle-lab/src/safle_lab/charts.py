"""Charts of pages as SVG, with real text."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from safle.basics import printable

SHARED_TEMPLATES = ("safle_lab", "safle.evaluation")
"""Packages whose templates pages of charts include: figures, tables, the style."""
WIDTH = 6.0
NAMES_SHOWN = 20
"""More names would leave no room for the chart."""
LEGEND_COLUMNS = 3
"""Names of lines are long; a legend of many classes, whose names are short, has more columns."""
TICKS_SHOWN = 8
COLOURS = (
    *("#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1"),
    *("#b7791f", "#2c7a7b", "#c53030", "#4a5568", "#718096"),
)
MARKERS = "osD^vPX*<>"


@dataclass(frozen=True)
class Series:
    """A line of a chart; ``deviation`` of y is drawn as a band, if there is any.

    >>> Series("accuracy", [1, 2], [0.7, 0.8]).name
    'accuracy'
    """

    name: str
    x: Sequence[float] | NDArray[np.float64]
    y: Sequence[float] | NDArray[np.float64]
    deviation: Sequence[float] | NDArray[np.float64] = ()


@dataclass(frozen=True)
class Chart:
    """Lines over x; ``log_base`` is 0 for a linear axis, ``marks`` name vertical lines.

    >>> Chart("Few samples", "samples", "accuracy", [Series("a", [1, 2], [0.7, 0.8])]).x_label
    'samples'
    """

    caption: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_base: int = 0
    marks: Sequence[tuple[str, float]] = ()
    template: ClassVar[str] = "figure.html.j2"


@dataclass(frozen=True)
class Mix:
    """One stacked bar per client, such as its samples by class; ``counts``, (clients, class_count).

    >>> Mix("Two sites", [[3, 1], [0, 5]], ["ill", "well"]).unit
    'samples'
    """

    caption: str
    counts: Sequence[Sequence[float]]
    classes: Sequence[str]
    unit: str = "samples"
    template: ClassVar[str] = "figure.html.j2"


@dataclass(frozen=True)
class Picture:
    """The inside of an <svg> element and its viewBox."""

    box: str
    content: Markup


def draw(block: Chart | Mix, name: str) -> Picture:
    """A block as a picture whose ids begin with ``name``.

    >>> lines = [Series("a", [1, 2], [0.7, 0.8])]
    >>> draw(Chart("Few samples", "samples", "accuracy", lines), "first").box.split()[0]
    '0'
    """
    lines = len(block.series) if isinstance(block, Chart) else 0
    # A legend of many lines needs room of its own, or it takes the chart's.
    legend_height = 0.18 * max(0, -(-lines // LEGEND_COLUMNS) - 3) if lines <= NAMES_SHOWN else 0.0
    figure, axes = _new_figure(WIDTH, 3.7 + legend_height if isinstance(block, Chart) else 3.2)
    if isinstance(block, Mix):
        handles, labels = _stack_bars(axes, np.asarray(block.counts), block.classes)
        axes.set_xlabel("client")
        axes.set_ylabel(block.unit)
        axes.grid(visible=False, axis="x")
        axes.margins(x=0.01)
        axes.xaxis.get_major_locator().set_params(integer=True)
    else:
        handles = _draw_lines(axes, block)
        labels = [_chart_label(series.name, 40) for series in block.series]
    if 1 < len(labels) <= NAMES_SHOWN:
        # Below the axes: beside them it would leave no width on a phone.
        columns = LEGEND_COLUMNS if lines or len(labels) <= 9 else 5
        style = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(handles, labels, fontsize=8.5, **style)
    return _to_svg(figure, name)


def _draw_lines(axes: Any, chart: Chart) -> list[Any]:
    handles = []
    for number, series in enumerate(chart.series):
        colour = COLOURS[number % len(COLOURS)]
        x, y = np.asarray(series.x, float), np.asarray(series.y, float)
        marker = MARKERS[number % len(MARKERS)] if len(x) <= 12 else None
        size = 7 if len(x) == 1 else 4.5
        # A second round of the colours is dashed.
        line = "-" if number < len(COLOURS) else "--"
        style = {"color": colour, "linestyle": line, "linewidth": 1.6}
        handles += axes.plot(x, y, marker=marker, markersize=size, **style)
        if len(series.deviation):
            spread = np.asarray(series.deviation, float)
            axes.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
    x_values = sorted({x for series in chart.series for x in series.x})
    if chart.log_base:
        axes.set_xscale("log", base=chart.log_base)
    elif len(x_values) <= TICKS_SHOWN:
        axes.set_xticks(x_values)
    elif all(float(x).is_integer() for x in x_values):
        axes.xaxis.get_major_locator().set_params(integer=True)
    for name, x_mark in chart.marks:
        axes.axvline(x_mark, color="#8a8f98", linewidth=1.0, linestyle=":")
        style = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top"}
        axes.annotate(name, (x_mark, 1.0), rotation=90, fontsize=8, color="#4a5568", **style)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    return handles


def _to_svg(figure: Any, name: str) -> Picture:
    import matplotlib

    text = io.StringIO()
    # Text stays text. With a fixed salt, equal charts of one name have equal bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    opening = re.search(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', text.getvalue())
    assert opening is not None, "matplotlib writes a viewBox"
    inside = text.getvalue()[opening.end() :].removesuffix("\n").removesuffix("</svg>")
    inside = re.sub(r"<metadata>.*?</metadata>", "", inside, flags=re.DOTALL)
    inside = re.sub(r'(?<= id=")(?=\w)|(?<=url\(#)|(?<=href="#)', f"{name}-", inside)
    # Matplotlib has already escaped all text.
    return Picture(opening[1], Markup(inside))


def _new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure and its axes, in the style of all charts here."""
    from matplotlib.figure import Figure

    # No pyplot: no window system, and no state shared with the caller's own figures.
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(visible=True, color="#e5e7eb", linewidth=0.8)
    return figure, axes


def _stack_bars(axes: Any, mix: Any, names: Sequence[object]) -> tuple[list[Any], list[str]]:
    """Draw each class on top of the classes before it; return handles and labels."""
    import matplotlib

    count = len(names)
    if count <= 20:
        colours = matplotlib.colormaps["tab10" if count <= 10 else "tab20"](range(count))
    else:
        colours = matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, count))
    bottom = np.zeros(len(mix))
    handles, labels = [], []
    for column, name in enumerate(names):
        holders = np.flatnonzero(mix[:, column])
        if len(holders):
            heights = mix[holders, column]
            bars = axes.bar(holders, heights, 0.9, bottom[holders], color=colours[column])
            handles.append(bars)
            labels.append(_chart_label(name))
            bottom += mix[:, column]
    return handles, labels


def _chart_label(name: object, longest: int = 18) -> str:
    """A name as a chart shows it: short, on one line, and never read as a formula."""
    text = printable(name, "�")
    if len(text) > longest:
        # Cut out the middle: long names tend to differ at their ends.
        half = longest // 2
        text = f"{text[:half]}…{text[1 - half :]}"
    return text.replace("$", r"\$")
