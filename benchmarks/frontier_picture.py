"""The frontier as a picture: accuracy over megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safle import HEADS

SHAPES = {
    "diamond": "D",
    "square": "s",
    "circle": "o",
    "star": "*",
    "triangle": "^",
    "cross": "X",
    "plus": "P",
}
MARKERS = dict(zip(HEADS, SHAPES.values(), strict=False))


def draw(points: Sequence[Any], path: Path) -> Path | None:
    """One panel a data set: accuracy over megabytes, the heads of an encoder joined."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator
    except ImportError:
        return None
    sources = list(dict.fromkeys(point.data for point in points))
    colours = {name: f"C{at}" for at, name in enumerate(dict.fromkeys(p.encoder for p in points))}
    figure = Figure(figsize=(8, 0.4 + 3.6 * len(sources)), layout="constrained")
    words = ", ".join(f"{shape}: {head}" for head, shape in zip(HEADS, SHAPES, strict=False))
    figure.suptitle(words, fontsize=10)
    for axes, source in zip(
        figure.subplots(len(sources), squeeze=False)[:, 0], sources, strict=True
    ):
        own = [point for point in points if point.data == source]
        names = list(dict.fromkeys(point.encoder for point in own))
        for name in names:
            pair = [point for point in own if point.encoder == name]
            places = [point.megabytes for point in pair], [100 * point.accuracy for point in pair]
            axes.plot(*places, color=colours[name], alpha=0.4)
            for point in pair:
                axes.errorbar(
                    [point.megabytes],
                    [100 * point.accuracy],
                    yerr=[100 * point.deviation],
                    fmt=MARKERS.get(point.head, "x"),
                    color=colours[name],
                    capsize=3,
                    label=name if point is pair[-1] else None,
                )
        axes.set(xscale="log", xlabel="MB per client, sent once", ylabel="test accuracy, %")
        # Powers of ten alone would leave some panels without a number.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_title(source, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
