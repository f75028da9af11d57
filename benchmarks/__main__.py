"""``python -m benchmarks NAME [--json] [--quick] [--features FILE]``, and more: see --help."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from typing import Any

from benchmarks import report
from benchmarks.settings import FEATURES_VARIABLE, REPOSITORY, Settings

NAMES = (
    "counting",
    "products",
    "encoding",
    "solving",
    "wire",
    "prediction",
    "federation",
    "privacy",
    "kernels",
)
LONG = ("extraction", "fed_heart", "frontier", "megabytes", "private_accuracy", "tables")
"""Minutes to half an hour: run by name only."""


def main() -> int:
    """Run one benchmark, or all of them; 1 if contestants disagree, bars met or not."""
    options = _parser().parse_args()
    settings = Settings.chosen(
        quick=options.quick,
        features=options.features,
        only=tuple(options.data),
    )
    if options.name == "all":
        return _run_all(settings, as_json=options.json)
    try:
        outcome = importlib.import_module(f"benchmarks.{options.name}").run(settings)
    except report.Disagreement as error:
        report.note(f"error: {error}")
        return 1
    content = outcome.to_json(options.name, quick=settings.quick)
    if options.json:
        report.show_json({**content, "tables": outcome.tables})
        return 0
    _show([content], outcome.tables)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, *LONG, "all"))
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    parser.add_argument("--quick", action="store_true", help="a tiny version that proves nothing")
    parser.add_argument(
        "--features", help=f"safetensors file with real features (or ${FEATURES_VARIABLE})"
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        choices=["cifar10", "tiny-imagenet", "photographs", "digits"],
        help="of the frontier; may be given more than once",
    )
    return parser


def _run_all(settings: Settings, *, as_json: bool) -> int:
    """Each in a process of its own, so that none inherits another's memory."""
    results, failed = {}, []
    for name in NAMES:
        report.note(f"{name} ...")
        command = [sys.executable, "-m", "benchmarks", name, "--json"]
        command += ["--features", str(settings.features), *["--quick"] * settings.quick]
        done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            failed.append(name)
        else:
            results[name] = json.loads(done.stdout.splitlines()[-1])
    if as_json:
        report.show_json(results)
    else:
        tables = {k: v for result in results.values() for k, v in result["tables"].items()}
        _show(list(results.values()), tables)
    if failed:
        report.note(f"error: failed: {', '.join(failed)}")
    return 1 if failed else 0


def _show(contents: list[dict[str, Any]], tables: dict[str, list[list[str]]]) -> None:
    bars = [bar for content in contents for bar in content["bars"]]
    sources = ", ".join(sorted({content["data"] for content in contents}))
    if bars:
        report.show_table(f"Benchmarks on {sources} features", report.bar_rows(bars))
    for title, rows in tables.items():
        report.show_table(title, rows)


if __name__ == "__main__":
    sys.exit(main())
