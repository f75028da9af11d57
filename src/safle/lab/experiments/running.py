"""Running an experiment: requests -> cells, measured or found -> JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from safle._internal import atomic
from safle.lab.experiments.cells import Cell, Figures, Progress, Store, versions
from safle.lab.experiments.data import DataSet
from safle.lab.experiments.measuring import MEASURES
from safle.lab.experiments.plan import Experiment, Plan, Request, Row
from safle.lab.experiments.settings import to_toml
from safle.lab.experiments.tuning import Tuner

FORMAT = "safle-experiment-1"
CELLS = "cells"
SHARED = ("federation", "tuning", "methods")
"""Sections of the settings that every experiment depends on."""


class Runner:
    """Experiments on some data, with their results in one folder."""

    def __init__(self, data: Sequence[DataSet], settings: Mapping[str, Any], folder: Path) -> None:
        self.data = data
        self.settings = settings
        self.folder = folder
        self.store = Store(folder / CELLS)

    def run(self, experiment: Experiment, progress: Progress | None = None) -> dict[str, Any]:
        """Measure what is missing, write the results, and return them."""
        requests = experiment.requests(Plan(self.data, self.settings))
        total = self._rehearse(requests)
        finished: set[str] = set()
        report = progress or (lambda _: None)

        def measured(cell: Cell, request: Request) -> Figures:
            data = self.data[request.data]

            def advance(share: float) -> None:
                report(min((len(finished) + share) / max(total, 1), 1.0))

            figures = self.store.find(cell, data)
            if figures is None:
                figures = self.store.measure(cell, data, MEASURES[cell.kind], advance)
            finished.add(cell.key(data))
            advance(0.0)
            return figures

        rows = [self._row(request, measured) for request in requests]
        result = self._result(experiment, rows)
        self._write(experiment.name, result)
        report(1.0)
        return result

    def _rehearse(self, requests: Sequence[Request]) -> int:
        """How many different cells there will be: the same steps without measuring."""
        asked: set[str] = set()

        def noted(cell: Cell, request: Request) -> Figures:
            asked.add(cell.key(self.data[request.data]))
            return {"accuracy": 0.0}

        for request in requests:
            self._row(request, noted)
        return len(asked)

    def _row(self, request: Request, measured: Callable[[Cell, Request], Figures]) -> Row:
        settings = request.settings
        if request.kind == "method":
            settings = Tuner(self.settings, measured).settings(request)
        cell = Cell(request.kind, {**request.arguments, "settings": settings})
        return {
            **request.labels,
            "seed": request.arguments["seed"],
            "settings": settings,
            **measured(cell, request),
        }

    def _result(self, experiment: Experiment, rows: Sequence[Row]) -> dict[str, Any]:
        kept = (*SHARED, experiment.name)
        return {
            "format": FORMAT,
            "experiment": experiment.name,
            "title": experiment.title,
            "question": experiment.question,
            "data": [data.facts() for data in self.data],
            "settings": {name: self.settings[name] for name in kept if name in self.settings},
            "versions": versions(),
            "seconds": sum(row["wall_seconds"] for row in rows),
            "summary": summarised(rows),
            "rows": list(rows),
        }

    def _write(self, name: str, result: Mapping[str, Any]) -> None:
        text = json.dumps(result, indent=1) + "\n"
        atomic.write_text(self.folder / f"{name}.csv", to_csv(result["rows"]))
        atomic.write_text(self.folder / f"{name}.toml", to_toml(result["settings"]).lstrip())
        # Last: results are there once this file is.
        atomic.write_text(self.folder / f"{name}.json", text)


def labels_of(row: Row) -> dict[str, Any]:
    """What identifies a row, beside its seed: everything before it."""
    names = list(row)
    return {name: row[name] for name in names[: names.index("seed")]}


def summarised(rows: Sequence[Row]) -> list[Row]:
    """Mean and deviation of the accuracy over seeds, and means of what it cost."""
    groups: dict[str, list[Row]] = {}
    for row in (row for row in rows if "accuracy" in row):
        groups.setdefault(json.dumps(labels_of(row)), []).append(row)
    summary = []
    for members in groups.values():
        scores = [row["accuracy"] for row in members]
        line = {
            **labels_of(members[0]),
            "accuracy": fmean(scores),
            "deviation": stdev(scores) if len(scores) > 1 else 0.0,
            "seeds": len(scores),
        }
        for name in ("rounds", "bytes_up", "bytes_down", "seconds"):
            if all(name in row for row in members):
                line[name] = fmean(row[name] for row in members)
        digests = {row["digest"] for row in members if "digest" in row}
        summary.append({**line, "digests": sorted(digests)})
    return summary


def _settings_beside(row: Row) -> dict[str, Any]:
    """A row's settings, under names that do not hide its labels and figures."""
    return {
        f"setting_{name}" if name in row else name: value
        for name, value in row.get("settings", {}).items()
    }


def to_csv(rows: Sequence[Row]) -> str:
    """One line a row; curves and other lists are in the JSON only."""
    plain = [
        {
            name: value
            for name, value in {**row, **_settings_beside(row)}.items()
            if not isinstance(value, list | dict)
        }
        for row in rows
    ]
    columns = list(dict.fromkeys(name for row in plain for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return text.getvalue()
