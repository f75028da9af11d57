"""The kinds of cells: a method's accuracy, the ridge's effect, unlearning."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.lab.baselines import Task, method_named
from safle.lab.baselines.safle import Calibrated, counted, encoder_of
from safle.lab.experiments.cells import Figures, Measure, Progress
from safle.lab.experiments.data import DataSet
from safle.lab.experiments.scenario import parts_of
from safle.lab.label_noise import with_noise
from safle.lab.partitions import class_mix, summary
from safle.model import Model
from safle.solver import solve
from safle.statistics import Statistics
from safle.wire import encode_statistics

Arguments = dict[str, Any]


def task_of(data: DataSet, arguments: Arguments, progress: Progress) -> Task:
    """Training samples, who holds them, and with which labels."""
    seed = int(arguments["seed"])
    labels = data.train_labels
    parts = parts_of(arguments["scenario"], labels, clients=arguments["clients"], seed=seed)
    noise = arguments.get("noise")
    if noise:
        labels = with_noise(
            labels,
            kind=noise["kind"],
            rate=noise["rate"],
            class_count=data.class_count,
            generator=np.random.default_rng([seed, 2]),
        )
    watched = (data.test, data.test_labels)
    return Task(
        data.train, labels, parts, data.class_count, seed=seed, watched=watched, progress=progress
    )


def measure_method(data: DataSet, arguments: Arguments, progress: Progress) -> Figures:
    """One method, one scenario, one seed."""
    if "held_out" in arguments:
        data = data.held_out(arguments["held_out"])
    task = task_of(data, arguments, progress)
    result = method_named(arguments["method"])(task, **arguments["settings"])
    return {
        "accuracy": _accuracy(result.model, data),
        "rounds": result.rounds,
        "bytes_up": result.bytes_up,
        "bytes_down": result.bytes_down,
        "seconds": result.seconds,
        "digest": result.digest,
        "curve": [[point.rounds, point.accuracy, point.bytes_per_client] for point in result.curve],
        "partition": summary(class_mix(data.train_labels, task.parts)),
        **result.facts,
    }


def measure_partition(data: DataSet, arguments: Arguments, progress: Progress) -> Figures:
    """Who holds what."""
    task = task_of(data, arguments, progress)
    mix = class_mix(data.train_labels, task.parts)
    return {**summary(mix), "class_mix": mix.tolist()}


def measure_ridge(data: DataSet, arguments: Arguments, progress: Progress) -> Figures:
    """Test accuracy over the ridge, and what the statistics alone would choose."""
    settings = arguments["settings"]
    task = task_of(data, arguments, lambda share: progress(0.4 * share))
    encoder = encoder_of(Calibrated(task, settings).calibration, settings, task.seed)
    statistics, _ = counted(task, encoder)

    def accuracy(ridge: Any, criterion: Any = "gcv") -> tuple[float, float]:
        solution = solve(statistics, ridge=ridge, criterion=criterion, head=settings["head"])
        model = Model(encoder, solution)
        return solution.ridge, _accuracy(model, data)

    chosen = {name: accuracy("auto", name) for name in ("gcv", "evidence")}
    centre, octaves = chosen["gcv"][0], arguments["octaves"]
    curve = []
    for done, octave in enumerate(octaves, start=1):
        curve.append(list(accuracy(centre * 2.0**octave)))
        progress(0.5 + 0.5 * done / len(octaves))
    best = max(accuracy for _, accuracy in curve)
    return {
        "accuracy": chosen["gcv"][1],
        "ridge_gcv": chosen["gcv"][0],
        "accuracy_evidence": chosen["evidence"][1],
        "ridge_evidence": chosen["evidence"][0],
        "best_of_curve": best,
        "curve": curve,
        "columns": encoder.layout.embedding_dim,
    }


def measure_unlearning(data: DataSet, arguments: Arguments, progress: Progress) -> Figures:
    """Clients leave: their counts are taken back, or everybody else counts again."""
    settings, leaving = arguments["settings"], int(arguments["leaving"])
    task = task_of(data, arguments, lambda share: progress(0.5 * share))
    holders = task.holders
    order = np.random.default_rng([task.seed, 3]).permutation(len(holders))
    gone, staying = order[:leaving], order[leaving:]

    def count(chosen: NDArray[np.int64]) -> Statistics:
        # Files of those who leave are measured elsewhere; here only their sum matters.
        return counted(replace(task, parts=[holders[at] for at in chosen]), encoder)[0]

    encoder = encoder_of(Calibrated(task, settings).calibration, settings, task.seed)
    everybody, theirs = count(order), count(gone)
    begin = time.perf_counter()
    left = everybody - theirs
    removing = time.perf_counter() - begin
    begin = time.perf_counter()
    again = count(staying)
    retraining = time.perf_counter() - begin

    def model(statistics: Statistics) -> Model:
        return Model(encoder, solve(statistics, ridge=settings["ridge"], head=settings["head"]))

    before, after, retrained = model(everybody), model(left), model(again)
    return {
        "accuracy": _accuracy(after, data),
        "accuracy_before": _accuracy(before, data),
        "same_statistics": encode_statistics(left) == encode_statistics(again),
        "same_model": after.to_bytes() == retrained.to_bytes(),
        "digest": after.digest,
        "digest_retrained": retrained.digest,
        "digest_before": before.digest,
        "samples_removed": theirs.sample_count,
        "seconds_removing": removing,
        "seconds_retraining": retraining,
    }


def _accuracy(model: Any, data: DataSet) -> float:
    return float((model.predict(data.test) == data.test_labels).mean())


MEASURES: dict[str, Measure] = {
    "method": measure_method,
    "partition": measure_partition,
    "ridge": measure_ridge,
    "unlearning": measure_unlearning,
}
