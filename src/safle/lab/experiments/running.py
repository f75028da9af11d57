"""Running an experiment: requests -> cells, measured or found -> JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from safle._internal import atomic
from safle._internal.spreadsheet import neutralise
from safle.lab.experiments.cells import Cell, Figures, Progress, Store, versions
from safle.lab.experiments.data import DataSet
from safle.lab.experiments.measuring import MEASURES
from safle.lab.experiments.plan import Experiment, Plan, Request
from safle.lab.experiments.settings import to_toml
from safle.lab.experiments.suite import Settings
from safle.lab.experiments.tuning import Measured, choose_settings

FORMAT = "safle-experiment-1"
Row = dict[str, Any]


class Runner:
    """Experiments on some data, with their results in one folder."""

    def __init__(self, data: Sequence[DataSet], settings: Settings, folder: Path) -> None:
        self.data = data
        self.settings = settings
        self.folder = folder
        self.store = Store(folder / "cells")

    def run(self, experiment: Experiment, progress: Progress = lambda _: None) -> Row:
        """Measure what is missing, write the results, and return them."""
        requests = list(experiment.requests(Plan(self.data, self.settings.federation)))
        total = self._count_cells(requests)
        finished: set[str] = set()

        def measured(cell: Cell, number: int) -> Figures:
            data = self.data[number]

            def advance(share: float) -> None:
                progress(min((len(finished) + share) / max(total, 1), 1.0))

            figures = self.store.find(cell, data)
            if figures is None:
                figures = self.store.measure(cell, data, MEASURES[cell.kind], advance)
            finished.add(cell.key(data))
            advance(0.0)
            return figures

        result = self._result(experiment, [self._row(request, measured) for request in requests])
        progress(1.0)
        return self._write(experiment.name, result)

    def _count_cells(self, requests: Sequence[Request]) -> int:
        """How many different cells there will be: the same steps without measuring."""
        asked: set[str] = set()

        def noted(cell: Cell, number: int) -> Figures:
            asked.add(cell.key(self.data[number]))
            return {"accuracy": 0.0}

        for request in requests:
            self._row(request, noted)
        return len(asked)

    def _row(self, request: Request, measured: Measured) -> Row:
        cell = request.cell
        if cell.kind == "method":
            cell = replace(cell, settings=choose_settings(request, self.settings, measured))
        figures = measured(cell, request.data)
        return {**request.labels, "seed": cell.seed, "settings": cell.settings, **figures}

    def _result(self, experiment: Experiment, rows: Sequence[Row]) -> Row:
        settings = asdict(self.settings)
        return {
            "format": FORMAT,
            "experiment": experiment.name,
            "title": experiment.title,
            "question": experiment.question,
            "data": [data.facts() for data in self.data],
            "settings": {
                name: settings[name]
                for name in ("federation", "tuning", "methods", experiment.name)
            },
            "versions": versions(),
            "seconds": sum(row["wall_seconds"] for row in rows),
            "summary": summarise(rows),
            "rows": list(rows),
        }

    def _write(self, name: str, result: Row) -> Row:
        """Write the results; returns them as they will be read."""
        text = json.dumps(result, indent=1) + "\n"
        atomic.write_text(self.folder / f"{name}.csv", to_csv(result["rows"]))
        atomic.write_text(self.folder / f"{name}.toml", to_toml(result["settings"]))
        # Last: results are there once this file is.
        atomic.write_text(self.folder / f"{name}.json", text)
        return dict(json.loads(text))


def labels_of(row: Row) -> Row:
    """What identifies a row, beside its seed: everything before it."""
    names = list(row)
    return {name: row[name] for name in names[: names.index("seed")]}


def summarise(rows: Sequence[Row]) -> list[Row]:
    """Mean and deviation of the accuracy over seeds, and means of what it cost."""
    groups: dict[str, list[Row]] = {}
    for row in (row for row in rows if "accuracy" in row):
        groups.setdefault(json.dumps(labels_of(row)), []).append(row)
    summary = []
    for members in groups.values():
        scores = [row["accuracy"] for row in members]
        costs = {
            name: fmean(row[name] for row in members)
            for name in ("rounds", "bytes_up", "bytes_down", "seconds")
            if all(name in row for row in members)
        }
        line = {
            **labels_of(members[0]),
            "accuracy": fmean(scores),
            "deviation": stdev(scores) if len(scores) > 1 else 0.0,
            "seeds": len(scores),
            **costs,
            "digests": sorted({row["digest"] for row in members if "digest" in row}),
        }
        summary.append(line)
    return summary


def to_csv(rows: Sequence[Row]) -> str:
    """One line per row; curves and other lists are in the JSON only.

    Settings follow the figures, under names that do not hide those.
    """
    plain = []
    for row in rows:
        beside = {
            f"setting_{name}" if name in row else name: value
            for name, value in row.get("settings", {}).items()
        }
        cells = {**row, **beside}.items()
        plain.append({n: neutralise(v) for n, v in cells if not isinstance(v, list | tuple | dict)})
    columns = list(dict.fromkeys(name for row in plain for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return text.getvalue()
