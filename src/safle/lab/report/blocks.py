"""What a report is made of: tables, charts and paragraphs, without a word of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A number with a remark in small print."""

    text: str
    remark: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of text or `Cell`; the first ``names`` columns are names."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    names: int = 1


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Attributes
    ----------
    deviation : of y, drawn as a band; empty for none
    dashed : for figures that are the paper's
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    deviation: Sequence[float] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over x.

    Attributes
    ----------
    log_base : of the x axis; 0 for a linear one
    marks : names and places of vertical lines
    """

    name: str
    caption: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_base: int = 0
    marks: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Mix:
    """Who holds which classes: one stacked bar a client.

    Attributes
    ----------
    counts : samples, (clients, class_count)
    """

    name: str
    caption: str
    counts: Sequence[Sequence[int]]
    classes: Sequence[str]


@dataclass(frozen=True)
class Section:
    """One experiment of the report."""

    name: str
    title: str
    question: str
    blocks: Sequence[Table | Chart | Mix]
    remarks: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
