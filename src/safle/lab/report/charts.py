"""Charts as SVG text, to stand in a page: vectors, with real text, read on any screen."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from safle.lab.report.blocks import Chart, Mix
from safle.model.pictures import new_figure, stacked_bars

WIDTH, HEIGHT = 6.0, 3.7
NAMES_SHOWN = 20
"""More names would leave no room for the chart."""
COLOURS = (
    "#2b6cb0",
    "#dd6b20",
    "#2f855a",
    "#b83280",
    "#6b46c1",
    "#b7791f",
    "#2c7a7b",
    "#c53030",
    "#4a5568",
    "#718096",
)
MARKERS = "osD^vPX*<>"


def draw(block: Chart | Mix) -> str:
    """A block as an <svg> element."""
    figure, axes = new_figure(WIDTH, HEIGHT if isinstance(block, Chart) else 3.2)
    if isinstance(block, Mix):
        stacked_bars(axes, np.asarray(block.counts), block.classes)
        axes.set_xlabel("client")
        axes.set_ylabel("samples")
        axes.grid(visible=False, axis="x")
        axes.margins(x=0.01)
        axes.xaxis.get_major_locator().set_params(integer=True)
    else:
        _lines(axes, block)
    _legend(figure, axes)
    return _svg(figure, block.name, block.caption)


def _lines(axes: Any, chart: Chart) -> None:
    for number, series in enumerate(chart.series):
        colour = COLOURS[number % len(COLOURS)]
        x, y = np.asarray(series.x, float), np.asarray(series.y, float)
        few = len(x) <= 12
        axes.plot(
            x,
            y,
            color=colour,
            label=series.name,
            linewidth=1.6,
            linestyle="--" if series.dashed else "-",
            marker=MARKERS[number % len(MARKERS)] if few else None,
            markersize=7 if len(x) == 1 else 4.5,
        )
        if len(series.deviation):
            spread = np.asarray(series.deviation, float)
            axes.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
    for name, place in chart.marks:
        axes.axvline(place, color="#8a8f98", linewidth=1.0, linestyle=":")
        axes.annotate(
            name,
            (place, 1.0),
            xycoords=("data", "axes fraction"),
            rotation=90,
            fontsize=8,
            ha="right",
            va="top",
            color="#4a5568",
        )
    if chart.log_base:
        axes.set_xscale("log", base=chart.log_base)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)


def _legend(figure: Any, axes: Any) -> None:
    handles, names = axes.get_legend_handles_labels()
    if 1 < len(names) <= NAMES_SHOWN:
        # Below the axes: beside them it would leave no width on a phone.
        columns = 3 if len(names) <= 9 else 5
        place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(handles, names, fontsize=8.5, **place)


def _svg(figure: Any, name: str, caption: str) -> str:
    import matplotlib

    text = io.StringIO()
    # Text stays text; the salt makes equal charts equal, and ids differ between charts.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=id=")(?=\w)', f"{name}-", svg)
    svg = re.sub(r"(?<=url\(#)", f"{name}-", svg)
    svg = re.sub(r'(?<=href="#)', f"{name}-", svg)
    label = caption.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return re.sub(
        r'^<svg (?:[^>]*?)viewBox="([^"]*)"[^>]*>',
        rf'<svg viewBox="\1" role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg" '
        r'xmlns:xlink="http://www.w3.org/1999/xlink">',
        svg,
        count=1,
        flags=re.DOTALL,
    )
