"""Run an experiment: settings -> tuned settings -> cells -> JSON, CSV and TOML.

A method's settings are chosen on held-out training samples, never on the test set. They are chosen
one after the other, in the order of the method's grid. Methods that refine another one
(`Method.tuned_like`) begin with its choice. Seeds share the choice.

A cell is kept in a file of its own as soon as it is measured. The file's name is a digest of the
cell and its data, so an interrupted run goes on where it stopped, and experiments that need the
same cell share its file. A user deletes a file to have its cell measured again.
"""

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w
from msgspec import structs

from safle.basics import as_settings, atomic, parse_toml, read_toml, to_mapping
from safle.errors import InvalidInput, SettingsError
from safle_lab.baselines import METHODS, method_named
from safle_lab.baselines.base import Progress
from safle_lab.baselines.heads import CPU, on_device
from safle_lab.experiments import EXPERIMENTS
from safle_lab.experiments.data import REAL, DataSet
from safle_lab.experiments.measuring import MEASURES, Figures
from safle_lab.experiments.plan import Cell, Experiment, Federation, Plan, Request
from safle_lab.experiments.suite import MANY_CLASSES, Settings, Table1
from safle_lab.experiments.summary import Row, summarise, to_csv
from safle_lab.partitions import POOLED

FORMAT = "safle-experiment-1"
CELL_FORMAT = "safle-cell-4"
PACKAGES = ("safle", "numpy", "scipy", "scikit-learn", "torch", "zstandard")
REAL_CLIENTS = ("rounds", "communication", "noise", "unlearning")
"""Experiments of one scenario that may use real clients; `clients` needs ever more."""
Measured = Callable[[Cell, int], Figures]
"""A cell and the number of its data -> its figures."""


def load_settings(
    path: Path | None, *, small: bool, class_count: int = 10, real: bool = False
) -> Settings:
    """Defaults for features files, or for digits (``small``), replaced where the file says so.

    With a hundred classes or more, table 1 has the paper's scenarios for many classes. With
    ``real`` clients, table 1 has them too, and the experiments of one scenario take them
    unless the file names another.
    """
    settings = Settings()
    if class_count >= 100:
        settings = structs.replace(settings, table1=Table1(scenarios=MANY_CLASSES))
    if small:
        # The methods' own settings are the start here, not the protocol of features files.
        bare = Settings(Federation(seeds_of={}), methods={})
        text = resources.files(__package__).joinpath("digits.toml").read_text("utf-8")
        settings = _replace(bare, parse_toml(text, "digits.toml"), "digits.toml: ")
    if real:
        taken = {name: {"scenario": REAL} for name in REAL_CLIENTS}
        settings = _replace(settings, taken, "real clients: ")
    if path is not None:
        settings = _replace(settings, read_toml(path, "settings"), f"{path}: ")
    if real:
        scenarios = dict.fromkeys((REAL, *settings.table1.scenarios))
        table1 = structs.replace(settings.table1, scenarios=tuple(scenarios))
        settings = structs.replace(settings, table1=table1)
    return settings


def _replace(settings: Settings, given: Mapping[str, Any], where: str) -> Settings:
    """Settings, replaced where ``given`` (parsed TOML) has others; ``where`` begins an error."""
    return as_settings(Settings, _merge(to_mapping(settings), given), where=where)


def _merge(default: Any, value: Any) -> Any:
    """Tables are merged, everything else is replaced."""
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    return {**default, **{name: _merge(default.get(name), inner) for name, inner in value.items()}}


def with_method(settings: Settings, name: str) -> Settings:
    """Settings in which every experiment that compares methods has this one, too."""
    changed = {}
    for experiment in EXPERIMENTS:
        table = getattr(settings, experiment)
        listed = getattr(table, "methods", (name,))
        # Backbones are compared with all samples at one client: partitions must change nothing.
        if name not in listed and (method_named(name).invariant or experiment != "backbones"):
            changed[experiment] = structs.replace(table, methods=(*listed, name))
    return structs.replace(settings, **changed)


def choose_settings(request: Request, settings: Settings, measure: Measured) -> Row:
    """All settings of the request's method: given ones, then chosen ones, then defaults."""
    method = method_named(request.cell.method)
    given = {**settings.methods.get(method.name, {}), **request.cell.settings}
    chosen: Row = structs.asdict(method.defaults)
    if method.tuned_like and request.tune:
        parent = replace(request.cell, method=method.tuned_like, settings={})
        inherited = choose_settings(replace(request, cell=parent), settings, measure)
        chosen |= {name: inherited[name] for name in METHODS[method.tuned_like].grid}
    chosen |= given
    grids = settings.tuning.grids.get(method.name, method.grid) if request.tune else {}
    for name, candidates in grids.items():
        if name in given or len(candidates) < 2:
            continue
        choices = [{**chosen, name: value} for value in candidates]
        scores = [_score(request, choice, settings, measure) for choice in choices]
        # Of equal scores the first counts: the grid's order decides.
        chosen[name] = candidates[scores.index(max(scores))]
    return chosen


def _score(request: Request, choice: Row, settings: Settings, measure: Measured) -> float:
    """Accuracy of a candidate on held-out samples, with fewer rounds and fewer layers."""
    tuning, cell = settings.tuning, request.cell
    limits = {"rounds": tuning.rounds, "layers": tuning.layers}
    short = {name: min(choice[name], most) for name, most in limits.items() if name in choice}
    method = method_named(cell.method)
    if method.invariant:
        # Where the partition changes nothing, all scenarios share one choice.
        cell = replace(cell, scenario=POOLED, clients=1)
    trial = replace(cell, seed=0, held_out=tuning.held_out, settings={**choice, **short})
    figures = measure(trial, request.data)
    if method.kind == "iterative" and figures.get("curve"):
        return fmean(accuracy for _, accuracy, _ in figures["curve"][-tuning.judged :])
    return float(figures["accuracy"])


def run_experiment(
    name: str,
    data: Sequence[DataSet],
    settings: Settings,
    folder: Path,
    progress: Progress = lambda _: None,
    device: str = CPU,
) -> Row:
    """Measure what an experiment is missing, write its results, and return them.

    ``device`` is where methods that use torch run; what was measured elsewhere is measured again.
    """
    path = folder / f"{name}.json"
    _refuse_other_data(path, data)
    experiment: Experiment = getattr(settings, name)
    requests = list(experiment.requests(Plan(data, settings.federation)))
    rows: list[Row] = []
    reached = 0.0

    def advance(share: float) -> None:
        # The candidates of a request share its part of the bar, which only moves forward.
        nonlocal reached
        reached = max(reached, (len(rows) + share) / len(requests))
        progress(reached)

    def measure(cell: Cell, number: int) -> Figures:
        return measure_once(folder / "cells", cell, data[number], advance, device)

    for request in requests:
        cell = request.cell
        if cell.kind == "method":
            cell = replace(cell, settings=choose_settings(request, settings, measure))
        figures = measure(cell, request.data)
        rows.append({**request.labels, "seed": cell.seed, "settings": cell.settings, **figures})
    progress(1.0)
    result = _describe(name, data, settings, rows) | {"versions": versions(device)}
    atomic.write_text(path.with_suffix(".csv"), to_csv(rows))
    atomic.write_text(path.with_suffix(".toml"), tomli_w.dumps(result["settings"]))
    # This file is written last: where it exists, the results are complete.
    atomic.write_text(path, json.dumps(result, indent=1) + "\n")
    return read_result(path)


def _describe(name: str, data: Sequence[DataSet], settings: Settings, rows: Sequence[Row]) -> Row:
    """The results of an experiment, with all that they depend on."""
    experiment: Experiment = getattr(settings, name)
    values = to_mapping(settings)
    return {
        "format": FORMAT,
        "experiment": name,
        "title": experiment.title,
        "question": experiment.question,
        "data": [data_set.facts() for data_set in data],
        "settings": {key: values[key] for key in ("federation", "tuning", "methods", name)},
        "programs": {key: method.program for key, method in METHODS.items() if method.program},
        "seconds": sum(row["wall_seconds"] for row in rows),
        "summary": summarise(rows),
        "rows": rows,
    }


def measure_once(
    folder: Path, cell: Cell, data: DataSet, progress: Progress, device: str = CPU
) -> Figures:
    """The figures of a cell; they are measured and kept if the folder does not have them."""
    place = "" if device == CPU else "-" + device.replace(":", "")
    path = folder / f"{cell.key(data)}{place}.json"
    if path.exists():
        return _read_figures(path)
    begin = time.perf_counter()
    with on_device(device):
        figures = MEASURES[cell.kind](data, cell, progress)
    figures["wall_seconds"] = time.perf_counter() - begin
    content = {
        "format": CELL_FORMAT,
        "cell": asdict(cell),
        "data": data.fingerprint,
        "versions": versions(device),
        "figures": figures,
    }
    atomic.make_folder(folder)
    atomic.write_text(path, json.dumps(content, indent=1) + "\n")
    return figures


def _read_figures(path: Path) -> Figures:
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != CELL_FORMAT:
            raise ValueError(f"format {content['format']!r}")
        figures: Figures = content["figures"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path}: not a finished cell ({error}); delete it and run again"
        ) from error
    return figures


def versions(device: str = CPU) -> dict[str, str]:
    """Versions of Python and of every package that affects the figures, and the device."""
    numbers = {"python": platform.python_version(), "device": device}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers


def _refuse_other_data(path: Path, data: Sequence[DataSet]) -> None:
    """Results of other data are not replaced."""
    if not path.exists():
        return
    fingerprints = {facts["fingerprint"] for facts in read_result(path)["data"]}
    if not fingerprints & {data_set.fingerprint for data_set in data}:
        raise SettingsError(
            f"{path} has results of other data; choose another folder (--out), or delete it"
        )


def read_result(path: Path) -> Row:
    """An experiment's results, as `run_experiment` wrote them."""
    try:
        result: Row = json.loads(path.read_text("utf-8"))
        if result["format"] != FORMAT or result["experiment"] != path.stem:
            raise ValueError(f"format {result['format']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path}: not the results of an experiment ({error}); delete it and run it again"
        ) from error
    return result
