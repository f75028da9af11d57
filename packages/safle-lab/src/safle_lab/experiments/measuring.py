"""The kinds of cells: a method's accuracy, the ridge's effect, unlearning."""

import time
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, recall_score, roc_auc_score

from safle.demo import class_mix, partition
from safle.encoders import Encoder
from safle.errors import InvalidInput, SettingsError
from safle.model import Model
from safle.statistics import Statistics
from safle.wire import encode_statistics
from safle_lab.baselines import Task, method_named, safle
from safle_lab.baselines.base import Predictor, Progress, SeparateModels, naming_errors
from safle_lab.experiments.cells import Cell, Figures, Measure
from safle_lab.experiments.data import DataSet
from safle_lab.label_noise import with_noise


def task_of(data: DataSet, cell: Cell, progress: Progress) -> Task:
    """Training samples, who holds them, and with which labels."""
    labels = data.train_labels
    who, wrong = (np.random.default_rng([cell.seed, part]) for part in (1, 2))
    parts = partition(labels, cell.scenario, clients=cell.clients, generator=who)
    if cell.noise:
        noise: dict[str, Any] = {"kind": cell.noise, "rate": cell.rate, "parts": parts}
        labels = with_noise(labels, class_count=data.class_count, generator=wrong, **noise)
    watched = (data.test, data.test_labels)
    held = (data.train, labels, parts, data.class_count)
    return Task(*held, cell.seed, watched, progress, texts=data.texts)


def measure_method(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """One method, one scenario, one seed."""
    if cell.held_out:
        data = data.held_out(cell.held_out)
    task = task_of(data, cell, progress)
    method = method_named(cell.method)
    result = method(task, **cell.settings)
    mix = class_mix(data.train_labels, task.parts)
    with naming_errors(method.path):
        figures = judge(result.model, data, mix)
    return {
        **figures,
        "rounds": result.rounds,
        "bytes_up": result.bytes_up,
        "bytes_down": result.bytes_down,
        "seconds": result.seconds,
        "digest": result.digest,
        "curve": [[point.rounds, point.accuracy, point.bytes_per_client] for point in result.curve],
        "partition": _summarise_mix(mix),
        **result.facts,
    }


def judge(model: Predictor | SeparateModels, data: DataSet, mix: NDArray[np.int64]) -> Figures:
    """Accuracy and AUC on the test samples, and the accuracy that each client sees.

    A client sees the classes it holds: its accuracy is that on test samples in its own mix
    of classes (``mix``, see `class_mix`), the mean of the classes' recalls with its shares.
    The AUC is the mean over the classes, each against the rest, by the softmax of the scores.
    """
    members = model.members if isinstance(model, SeparateModels) else [model]
    right, areas, recalls = zip(*(_judge_one(own, data) for own in members), strict=True)
    held = mix[mix.sum(axis=1) > 0]
    own = (held / held.sum(axis=1, keepdims=True) * np.array(recalls)).sum(axis=1)
    figures = {"accuracy": fmean(right), "auc": fmean(areas), "per_client": own.tolist()}
    if isinstance(model, SeparateModels):
        figures |= {"clients_deviation": float(np.std(right)), "worst_client": min(right)}
    return figures


def _judge_one(model: Predictor, data: DataSet) -> tuple[float, float, NDArray[np.float64]]:
    """Accuracy, AUC and every class's recall."""
    labels, every = data.test_labels, np.arange(data.class_count)
    scores = model.decision_function(data.test)
    known = np.asarray(getattr(model, "class_names", every))
    if scores.shape != (len(labels), len(known)):
        raise InvalidInput(
            f"a model's scores have shape {scores.shape}; expected ({len(labels)}, {len(known)}): "
            "a row for each sample, a column for each class"
        )
    found = known[np.argmax(scores, axis=1)]
    # A class that nobody has is scored minus infinity, which orders but cannot be computed with.
    ranked = np.isin(known, labels)
    truth = labels[:, None] == known[ranked]
    posterior = log_softmax(scores[:, ranked].astype(np.float64), axis=1)
    area = roc_auc_score(truth, np.nan_to_num(posterior))
    recalls = recall_score(labels, found, labels=every, average=None, zero_division=0.0)
    return float(accuracy_score(labels, found)), float(area), recalls


def measure_partition(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """Who holds what."""
    mix = class_mix(data.train_labels, task_of(data, cell, progress).parts)
    return {**_summarise_mix(mix), "class_mix": mix.tolist()}


def _prepare(data: DataSet, cell: Cell, progress: Progress) -> tuple[Task, safle.Settings, Encoder]:
    settings = safle.METHOD.settings(cell.settings)
    task = task_of(data, cell, progress)
    encoder, _ = safle.shared_encoder(task, settings)
    return task, settings, encoder


def measure_ridge(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """Test accuracy over the ridge, and what the statistics alone would choose."""
    task, settings, encoder = _prepare(data, cell, lambda share: progress(0.4 * share))
    statistics, _ = safle.count_clients(task, encoder)

    def accuracy(ridge: float | str, criterion: str = "gcv") -> tuple[float, float]:
        solution = safle.solve_by(settings, statistics, ridge=ridge, criterion=criterion)
        return solution.ridge, task.accuracy(Model(encoder, solution))

    chosen = {name: accuracy("auto", name) for name in ("gcv", "evidence")}
    curve = []
    for done, octave in enumerate(cell.octaves, start=1):
        curve.append(list(accuracy(chosen["gcv"][0] * 2.0**octave)))
        progress(0.5 + 0.5 * done / len(cell.octaves))
    return {
        "accuracy": chosen["gcv"][1],
        "ridge_gcv": chosen["gcv"][0],
        "accuracy_evidence": chosen["evidence"][1],
        "ridge_evidence": chosen["evidence"][0],
        "best_of_curve": max(accuracy for _, accuracy in curve),
        "curve": curve,
        "columns": encoder.layout.embedding_dim,
    }


def measure_unlearning(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """Clients leave: their counts are taken back, or everybody else counts again."""
    task, settings, encoder = _prepare(data, cell, lambda share: progress(0.5 * share))
    holders = task.holders
    if cell.leaving >= len(holders):
        raise SettingsError(
            f"unlearning: {cell.leaving} clients leave and {len(holders)} hold samples; expected "
            "fewer: set leaving under [unlearning], or more clients under [federation]"
        )
    order = np.random.default_rng([task.seed, 3]).permutation(len(holders))

    def count(chosen: NDArray[np.int64]) -> Statistics:
        return safle.count_clients(replace(task, parts=[holders[at] for at in chosen]), encoder)[0]

    everybody, theirs = count(order), count(order[: cell.leaving])
    begin = time.perf_counter()
    left = everybody - theirs
    removing = time.perf_counter() - begin
    begin = time.perf_counter()
    again = count(order[cell.leaving :])
    retraining = time.perf_counter() - begin
    before, after, retrained = (
        Model(encoder, safle.solve_by(settings, statistics))
        for statistics in (everybody, left, again)
    )
    return {
        "accuracy": task.accuracy(after),
        "accuracy_before": task.accuracy(before),
        "same_statistics": encode_statistics(left) == encode_statistics(again),
        "same_model": after.to_bytes() == retrained.to_bytes(),
        "digest": after.digest,
        "digest_retrained": retrained.digest,
        "digest_before": before.digest,
        "samples_removed": theirs.sample_count,
        "seconds_removing": removing,
        "seconds_retraining": retraining,
    }


MEASURES: dict[str, Measure] = {
    "method": measure_method,
    "partition": measure_partition,
    "ridge": measure_ridge,
    "unlearning": measure_unlearning,
}


def _summarise_mix(mix: NDArray[np.int64]) -> dict[str, float]:
    """A partition in figures; means over clients with samples."""
    sizes = mix.sum(axis=1)
    held = mix[sizes > 0]
    return {
        "least_samples": int(sizes.min()),
        "most_samples": int(sizes.max()),
        "mean_classes": float((held > 0).sum(axis=1).mean()),
    }
