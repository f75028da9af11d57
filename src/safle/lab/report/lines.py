"""What all sections share: cells, curves, and picking lines by their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from safle.lab.report.blocks import Cell, Chart, Mix, Series, Table

Result = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]
Lines = list[list[str | Cell]]
Content = tuple[list[Table | Chart | Mix], list[str]]
"""Blocks, and remarks on what differs and why."""
MEGA = 1e6
ACCURACY = "top-1 accuracy, %"


def score(line: Mapping[str, Any], paper: float | None = None, *, strong: bool = False) -> Cell:
    """Accuracy in percent, ± deviation, the paper's in small print."""
    text = f"{100 * line['accuracy']:.2f}"
    if line["seeds"] > 1:
        text += f" ± {100 * line['deviation']:.2f}"
    return Cell(text, "" if paper is None else f"paper {paper:.2f}", strong)


def megabytes(line: Mapping[str, Any], name: str) -> str:
    """Of a column of bytes."""
    return f"{line[name] / MEGA:.3g}"


def distinct(lines: Rows, name: str) -> list[Any]:
    """Values of a column, each once, in their order."""
    return list(dict.fromkeys(line[name] for line in lines if name in line))


def matching(lines: Rows, **labels: Any) -> list[Mapping[str, Any]]:
    """Lines that have all these labels."""
    return [line for line in lines if all(line.get(name) == v for name, v in labels.items())]


def mean_curve(rows: Rows, column: int) -> tuple[list[float], list[float], list[float]]:
    """x, mean accuracy and deviation over seeds, in percent."""
    curves = [row["curve"] for row in rows]
    length = min(len(curve) for curve in curves)
    x = [float(curves[0][at][column]) for at in range(length)]
    values = [[100 * curve[at][1] for curve in curves] for at in range(length)]
    mean = [fmean(value) for value in values]
    spread = [
        (sum((v - m) ** 2 for v in value) / max(len(value) - 1, 1)) ** 0.5
        for value, m in zip(values, mean, strict=True)
    ]
    return x, mean, spread


def curves_of(rows: Rows, column: int, scale: float = 1.0) -> list[Series]:
    """A line for every method: accuracy over a column of its curve."""
    series = []
    for method in distinct(rows, "method"):
        own = [row for row in matching(rows, method=method) if "encoder" not in row]
        if not own:
            continue
        x, mean, spread = mean_curve(own, column)
        series.append(Series(method, [v / scale for v in x], mean, spread if len(own) > 1 else ()))
    return series
