"""What a report is made of: tables and charts, each with the template that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A text with a remark in small print."""

    text: str
    remark: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column has their names."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    template: ClassVar[str] = "table.html.j2"

    @classmethod
    def of(cls, caption: str, rows: Sequence[Row], columns: Mapping[str, Show]) -> Table:
        """A table with a column for every title and how it shows a row."""
        shown = [[show(row) for show in columns.values()] for row in rows]
        cells = [[Cell(c) if isinstance(c, str) else c for c in line] for line in shown]
        return cls(caption, list(columns), cells)


Show = Callable[[Row], str | Cell]


@dataclass(frozen=True)
class Series:
    """A line of a chart; ``deviation`` of y is drawn as a band, if there is any."""

    name: str
    x: Sequence[float] | NDArray[np.float64]
    y: Sequence[float] | NDArray[np.float64]
    deviation: Sequence[float] | NDArray[np.float64] = ()


@dataclass(frozen=True)
class Chart:
    """Lines over x.

    Attributes
    ----------
    log_base : of the x axis; 0 for a linear one
    marks : names and places of vertical lines
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
    """Who holds which classes: one stacked bar per client.

    Attributes
    ----------
    counts : samples, (clients, class_count)
    """

    caption: str
    counts: Sequence[Sequence[int]]
    classes: Sequence[str]
    template: ClassVar[str] = "figure.html.j2"


@dataclass(frozen=True)
class Content:
    """What a section shows, and remarks on what differs and why."""

    blocks: Sequence[Table | Chart | Mix]
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """One experiment of the report; ``settings`` as TOML."""

    name: str
    title: str
    question: str
    content: Content
    settings: str
