"""A folder of results -> its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safle._internal import atomic
from safle.errors import InvalidInput
from safle.lab.experiments.running import FORMAT
from safle.lab.experiments.suite import EXPERIMENTS
from safle.lab.report.page import page
from safle.lab.report.sections import section_of
from safle.model.pictures import require_matplotlib


def write_report(folder: Path, output: Path) -> list[str]:
    """Write the page of all experiments with results in ``folder``; returns their names."""
    require_matplotlib()
    results = [_read(path) for name in EXPERIMENTS if (path := folder / f"{name}.json").exists()]
    if not results:
        raise InvalidInput(
            f"{folder} holds no results; expected table1.json or another experiment's: run "
            f"'safle experiment table1 --out {folder}' first"
        )
    data = results[0]["data"][0]
    sections = []
    for result in results:
        if result["data"][0]["fingerprint"] != data["fingerprint"]:
            raise InvalidInput(
                f"{folder}: {result['experiment']}.json is about other features than "
                f"{results[0]['experiment']}.json; keep results of different data apart"
            )
        sections.append(_section(result, folder))
    versions = ", ".join(f"{name} {number}" for name, number in results[0]["versions"].items())
    title = f"Federated learning on {data['name']}: the paper's experiments"
    atomic.write_text(output, page(title, sections, data, versions))
    return [section.name for section in sections]


def _section(result: dict[str, Any], folder: Path) -> Any:
    try:
        return section_of(result)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{folder / result['experiment']}.json does not hold what its experiment measures "
            f"({error!r}); run the experiment again"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if result["format"] != FORMAT or result["experiment"] != path.stem:
            raise ValueError(f"format {result['format']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path}: not the results of an experiment ({error}); run it again"
        ) from error
    return result
