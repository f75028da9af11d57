"""The report: results of a folder -> one HTML page that needs no script, font or network."""

from pathlib import Path
from typing import Any

import tomli_w

from safle.basics import atomic, render_page
from safle.errors import InvalidInput
from safle_lab.charts import SHARED_TEMPLATES, draw
from safle_lab.experiments import EXPERIMENTS
from safle_lab.experiments.running import read_result
from safle_lab.report import encoders, methods
from safle_lab.report.paper import Paper, remarks_on

MAKERS = {
    "table1": methods.table1,
    "bucketing": encoders.bucketing,
    "backbones": encoders.backbones,
    "rounds": methods.rounds,
    "communication": methods.communication,
    "clients": methods.clients,
    "sparsity": encoders.sparsity,
    "noise": methods.noise,
    "ridge": encoders.ridge,
    "unlearning": encoders.unlearning,
}


def write_report(folder: Path, output: Path) -> list[str]:
    """Write the page of all experiments with results in ``folder``; returns their names."""
    paths = (folder / f"{name}.json" for name in EXPERIMENTS)
    results = [read_result(path) for path in paths if path.exists()]
    if not results:
        raise InvalidInput(
            f"{folder} holds no results; expected table1.json or another experiment's: run "
            f"'safle experiment table1 --out {folder}' first"
        )
    data = results[0]["data"][0]
    for result in results:
        if result["data"][0]["fingerprint"] != data["fingerprint"]:
            raise InvalidInput(
                f"{folder}: {result['experiment']}.json is about other features than "
                f"{results[0]['experiment']}.json; keep results of different data apart"
            )
    page = render_page(
        ("safle_lab.report", *SHARED_TEMPLATES),
        "page.html.j2",
        draw=draw,
        title=f"Federated learning on {data['name']}: the paper's experiments",
        sections=[_section_of(result, folder) for result in results],
        data=data,
        versions=", ".join(f"{name} {number}" for name, number in results[0]["versions"].items()),
    )
    atomic.write_text(output, page)
    return [result["experiment"] for result in results]


def _section_of(result: dict[str, Any], folder: Path) -> dict[str, Any]:
    """An experiment as the template shows it."""
    name = result["experiment"]
    try:
        return {
            "name": name,
            "title": result["title"],
            "question": result["question"],
            "blocks": MAKERS[name](result, Paper.of(result["data"][0])),
            "remarks": remarks_on(result),
            "settings": tomli_w.dumps(result["settings"]),
        }
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{folder / name}.json does not hold what its experiment measures ({error!r}); run "
            "the experiment again"
        ) from error


__all__ = ["write_report"]
