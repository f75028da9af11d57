"""How results of experiments become tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from safle_lab.charts import Chart, Mix, Series

Row = Mapping[str, Any]
Result = Mapping[str, Any]
Rows = Sequence[Row]
MEGA = 1e6
ACCURACY = "top-1 accuracy, %"


@dataclass(frozen=True)
class Entry:
    """A text with a remark in small print."""

    text: str
    remark: str = ""
    strong: bool = False


Show = Callable[[Row], str | Entry]
"""The function that shows a row in one column."""


@dataclass(frozen=True)
class Table:
    """Rows of entries; the first column has their names."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    template: ClassVar[str] = "table.html.j2"

    @classmethod
    def of(cls, caption: str, rows: Rows, columns: Mapping[str, Show]) -> Table:
        """A table; ``columns`` maps every title to the function that shows a row."""
        shown = [[show(row) for show in columns.values()] for row in rows]
        entries = [[Entry(e) if isinstance(e, str) else e for e in line] for line in shown]
        return cls(caption, list(columns), entries)


Blocks = list[Table | Chart | Mix]
"""What a section of the report shows."""


SMALL_PRINT = {
    "balanced_accuracy": "balanced",
    "auc": "AUC",
    "clients_deviation": "clients ±",
    "worst_client": "worst",
}
"""Further measures of an accuracy, and what they are called beside it."""


def show_score(line: Row, paper: float | None = None, *, strong: bool = False) -> Entry:
    """Accuracy in percent, ± deviation; in small print other measures, and the paper's figure."""
    text = f"{100 * line['accuracy']:.2f}"
    if line["seeds"] > 1:
        text += f" ± {100 * line['deviation']:.2f}"
    present = [name for name in SMALL_PRINT if name in line]
    small = [f"{SMALL_PRINT[name]} {100 * line[name]:.1f}" for name in present]
    small += [] if paper is None else [f"paper {paper:.2f}"]
    return Entry(text, ", ".join(small), strong)


def column(name: str, form: str = "", *, scale: float = 1.0) -> Show:
    """A column that shows a figure, times ``scale``, in a format of Python's."""
    return lambda row: format(scale * row[name] if scale != 1.0 else row[name], form)


MEGABYTES = "MB per client"
MB_RULE = "MB are what a client, on average, sends and receives until it holds the final model"


def show_megabytes(row: Row) -> Entry:
    """Sent plus received, the one rule for MB; in small print how much of it is sent."""
    total = f"{row['bytes_per_client'] / MEGA:.3g}"
    return Entry(total, f"sends {row['bytes_up'] / MEGA:.3g}")


COSTS: dict[str, Show] = {"rounds": column("rounds", ".0f"), MEGABYTES: show_megabytes}


def distinct(lines: Rows, name: str) -> list[Any]:
    """Values of a column, each once, in their order."""
    return list(dict.fromkeys(line[name] for line in lines if name in line))


def matching(lines: Rows, **labels: Any) -> list[Row]:
    """Lines that have all these labels."""
    return [line for line in lines if all(line.get(name) == v for name, v in labels.items())]


def first_lines(lines: Rows, *names: str) -> list[Row]:
    """The first line of every combination of these labels, in their order."""
    first: dict[tuple[Any, ...], Row] = {}
    for line in lines:
        first.setdefault(tuple(line[name] for name in names), line)
    return list(first.values())


def score_where(lines: Rows, *same: str, **labels: Any) -> Show:
    """A column of scores: those of the lines with ``labels`` that agree with a row in ``same``."""

    def show(row: Row) -> str | Entry:
        measured = matching(lines, **labels, **{name: row[name] for name in same})
        return show_score(measured[0]) if measured else "not run"

    return show


def with_figures(result: Result, *labels: str) -> list[Row]:
    """Lines of the summary, each with the other figures of the first of its rows."""
    return [
        {**matching(result["rows"], **{name: line[name] for name in labels})[0], **line}
        for line in result["summary"]
    ]


def draw_lines(lines: Rows, label: str, x: str) -> list[Series]:
    """A line for every value of ``label``: accuracy over the column ``x``."""
    series = []
    for value in distinct(lines, label):
        members = matching(lines, **{label: value})
        spread = [100 * line["deviation"] for line in members] if members[0]["seeds"] > 1 else ()
        accuracies = [100 * line["accuracy"] for line in members]
        series.append(Series(str(value), [line[x] for line in members], accuracies, spread))
    return series


def draw_curves(rows: Rows, place: int, scale: float = 1.0) -> list[Series]:
    """A line for every method: mean accuracy over seeds against a column of its curve."""
    series = []
    for method in distinct(rows, "method"):
        curves = [row["curve"] for row in matching(rows, method=method) if "encoder" not in row]
        if curves:
            length = min(len(curve) for curve in curves)
            values = 100 * np.array([[point[1] for point in curve[:length]] for curve in curves])
            x = [point[place] * scale for point in curves[0][:length]]
            spread = values.std(axis=0, ddof=1) if len(curves) > 1 else ()
            series.append(Series(method, x, values.mean(axis=0), spread))
    return series
