"""Rows of an experiment -> the lines that are shown: means over seeds, real clients, CSV."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from safle.basics import neutralise

COSTS = ("rounds", "bytes_up", "bytes_down", "bytes_per_client", "seconds")
MEANS = (
    *("balanced_accuracy", "auc", "clients_accuracy", "clients_balanced"),
    *("worst_client", "clients_deviation", *COSTS),
)
"""Figures whose mean over seeds is shown beside the accuracy's."""
_SAME = {True: "same bytes", False: "DIFFERENT"}
Row = dict[str, Any]
Lines = tuple[list[str], list[list[str]]]
"""Titles of columns, and rows of texts."""


def labels_of(row: Row, first_figure: str = "seed") -> Row:
    """The labels that identify a row: all fields before its first figure."""
    names = list(row)
    return {name: row[name] for name in names[: names.index(first_figure)]}


def summarise(rows: Sequence[Row]) -> list[Row]:
    """Mean and deviation of the accuracy over seeds, and the means of `MEANS`."""
    groups: dict[str, list[Row]] = {}
    for row in (row for row in rows if "accuracy" in row):
        groups.setdefault(json.dumps(labels_of(row)), []).append(row)
    summary = []
    for members in groups.values():
        scores = [row["accuracy"] for row in members]
        costs = {
            name: fmean(row[name] for row in members)
            for name in MEANS
            if all(name in row for row in members)
        }
        same = [row["same_model"] for row in members if "same_model" in row]
        summary.append(
            {
                **labels_of(members[0]),
                **({"against retraining": _SAME[min(same)]} if same else {}),
                "accuracy": fmean(scores),
                "deviation": stdev(scores) if len(scores) > 1 else 0.0,
                "seeds": len(scores),
                **costs,
                "digests": sorted({row["digest"] for row in members if "digest" in row}),
            }
        )
    return summary


def to_csv(rows: Sequence[Row]) -> str:
    """One line per row; curves and other lists are in the JSON only.

    Settings follow the figures; a setting with a figure's name gets the prefix ``setting_``.
    """
    plain = []
    for row in rows:
        settings = {
            f"setting_{name}" if name in row else name: value
            for name, value in row.get("settings", {}).items()
        }
        cells = {**row, **settings}.items()
        plain.append({n: neutralise(v) for n, v in cells if not isinstance(v, list | tuple | dict)})
    columns = list(dict.fromkeys(name for row in plain for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return text.getvalue()


def real_clients(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """A line for each real client whose test samples are known, and one of their means.

    Each has ``client``, ``samples``, and under a method's title its accuracy and balanced accuracy
    there, as means over seeds.
    """
    lines: dict[str, Row] = {}
    measured: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        for own in row.get("real_clients", ()):
            figures = (own["accuracy"], own["balanced_accuracy"])
            lines[own["client"]] = {"client": own["client"], "samples": own["samples"]}
            measured.setdefault((own["client"], row["method"]), []).append(figures)
    for (client, method), pairs in measured.items():
        lines[client][method] = _means(pairs)
    if not lines:
        return []
    total: Row = {
        "client": "mean of clients",
        "samples": sum(line["samples"] for line in lines.values()),
    }
    for method in dict.fromkeys(method for _, method in measured):
        total[method] = _means([line[method] for line in lines.values()])
    return [*lines.values(), total]


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    accuracies, balanced = zip(*pairs, strict=True)
    return fmean(accuracies), fmean(balanced)


def lines_of(summary: Sequence[Row]) -> Lines:
    """Labels, accuracy ± deviation, other measures, and what it cost where that was measured."""
    names = list(dict.fromkeys(name for line in summary for name in labels_of(line, "accuracy")))
    rows = []
    for line in summary:
        spread = f" ± {100 * line['deviation']:.2f}" if line["seeds"] > 1 else ""
        costs = ["", ""]
        if "bytes_per_client" in line:
            costs = [f"{line['rounds']:.0f}", f"{line['bytes_per_client'] / 1e6:.3f}"]
        digests = ", ".join(digest[:8] for digest in line["digests"][:2])
        ellipsis = " …" if len(line["digests"]) > 2 else ""
        labels = (str(line.get(name, "")) for name in names)
        accuracy = f"{line['accuracy']:.2%}{spread}"
        balanced = f"{line['balanced_accuracy']:.2%}" if "balanced_accuracy" in line else ""
        area = f"{line['auc']:.3f}" if "auc" in line else ""
        measures = (accuracy, balanced, area, str(line["seeds"]))
        rows.append([*labels, *measures, *costs, digests + ellipsis])
    columns = ("accuracy", "balanced", "AUC", "seeds", "rounds", "MB per client", "models")
    return [*names, *columns], rows


def lines_by_client(rows: Sequence[Row]) -> dict[str, Lines]:
    """A row for each real client: accuracy, then balanced accuracy, of every method."""
    lines = real_clients(rows)
    if not lines:
        return {}
    methods = [name for name in lines[0] if name not in ("client", "samples")]
    columns = ["client", "test samples", *methods]
    tables = {}
    for at, title in enumerate(("accuracy of each client", "balanced accuracy of each client")):
        shown = [
            [line["client"], str(line["samples"]), *(f"{line[name][at]:.2%}" for name in methods)]
            for line in lines
        ]
        tables[title] = (columns, shown)
    return tables
