"""What a benchmark found, and the only place that prints it."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 110
"""Columns of a table where nobody says how wide the terminal is."""


class Disagreement(AssertionError):
    """Two contestants that should give the same answer did not."""


@dataclass(frozen=True)
class Bar:
    """A figure and what is asked of it: at least, or at most, ``limit``."""

    figure: str
    value: float
    limit: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "value": self.value,
            "bar": f"{'<=' if self.at_most else '>='} {self.limit:g}",
            "met": self.met,
        }


@dataclass(frozen=True)
class Outcome:
    """One benchmark's figures.

    Attributes
    ----------
    figures : what goes into the JSON object, by key
    bars : the figures something is asked of
    data : "cifar10" or "generated"
    compared : in words, which answers were found equal
    tables : rows for people, by title; the first row is the header
    """

    figures: Mapping[str, Any]
    data: str
    compared: str
    bars: Sequence[Bar] = ()
    tables: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def to_json(self, name: str, *, quick: bool) -> dict[str, Any]:
        return {
            "benchmark": name,
            "quick": quick,
            "data": self.data,
            "equal": True,
            "compared": self.compared,
            **self.figures,
            "bars": [bar.to_json() for bar in self.bars],
            "machine": machine(),
        }


def machine() -> dict[str, Any]:
    """Where and beside what load this was measured."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def show_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def show_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows``, the first of which is the header."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    table = Table(title=title, title_justify="left")
    for index, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if index else "left")
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)


def bar_rows(bars: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of figure, value, bar, met or not."""
    rows = [["figure", "value", "bar", "met"]]
    for bar in bars:
        met = "[green]met[/]" if bar["met"] else "[red]missed[/]"
        rows.append([bar["figure"], f"{bar['value']:.4g}", bar["bar"], met])
    return rows


def note(text: str) -> None:
    """Say what is going on, on the error stream: the output stays a table or JSON."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
