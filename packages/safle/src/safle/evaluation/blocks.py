"""What pages are made of: tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A text with a remark in small print.

    >>> Cell("97.5", remark="AUC 99.1").text
    '97.5'
    """

    text: str
    remark: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column has their names.

    >>> table = Table.of("Sites", [{"name": "a", "n": 3}], {"site": lambda row: row["name"]})
    >>> table.columns, table.rows[0][0].text
    (['site'], 'a')
    """

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
    """Lines over x.

    Attributes
    ----------
    log_base : of the x axis; 0 for a linear one
    marks : names and places of vertical lines

    Examples
    --------
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
    """Who holds which classes: one stacked bar per client.

    Attributes
    ----------
    counts : samples, or another ``unit``, (clients, class_count)

    Examples
    --------
    >>> Mix("Two sites", [[3, 1], [0, 5]], ["ill", "well"]).unit
    'samples'
    """

    caption: str
    counts: Sequence[Sequence[float]]
    classes: Sequence[str]
    unit: str = "samples"
    template: ClassVar[str] = "figure.html.j2"
