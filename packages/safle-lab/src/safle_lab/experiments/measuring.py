"""The kinds of cells: a method's accuracy, the ridge's effect, unlearning."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, recall_score, roc_auc_score

from safle import Encoder, Model, Statistics, encode
from safle.errors import InvalidInput, SettingsError
from safle_lab.baselines import Task, method_named, safle
from safle_lab.baselines.base import Predictor, Progress, SeparateModels, naming_errors, predict
from safle_lab.experiments.data import REAL, DataSet
from safle_lab.experiments.plan import Cell
from safle_lab.label_noise import with_noise
from safle_lab.partitions import class_mix, partition

Figures = dict[str, Any]
Measure = Callable[[DataSet, Cell, Progress], Figures]


def task_of(data: DataSet, cell: Cell, progress: Progress) -> Task:
    """The training samples, with label noise if the cell has any, and their partition."""
    labels = data.train_labels
    split_rng, noise_rng = (np.random.default_rng([cell.seed, stream]) for stream in (1, 2))
    if cell.scenario == REAL:
        parts = data.real_parts()
    else:
        parts = partition(labels, cell.scenario, clients=cell.clients, generator=split_rng)
    if cell.noise:
        noise: dict[str, Any] = {"kind": cell.noise, "rate": cell.rate, "parts": parts}
        labels = with_noise(labels, class_count=data.class_count, generator=noise_rng, **noise)
    watched = (data.test, data.test_labels)
    training = (data.train, labels, parts, data.class_count)
    return Task(*training, cell.seed, watched, progress, texts=data.texts)


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
        if cell.scenario == REAL and data.test_clients is not None:
            figures |= judge_real_clients(result.model, data)
    return {
        **figures,
        "rounds": result.rounds,
        "bytes_up": result.bytes_up,
        "bytes_down": result.bytes_down,
        "bytes_per_client": result.bytes_per_client,
        "seconds": result.seconds,
        "digest": result.digest,
        "curve": [[point.rounds, point.accuracy, point.bytes_per_client] for point in result.curve],
        **result.facts,
    }


def judge(model: Predictor | SeparateModels, data: DataSet, mix: NDArray[np.int64]) -> Figures:
    """Accuracy, recalls and AUC on the test samples, and the accuracy that each client sees.

    ``recalls`` are the classes' own, NaN for a class that the test samples do not have; their mean
    is the balanced accuracy, by which a rare class counts as much as a frequent one.
    A client sees the classes it holds: its accuracy is that on test samples in its own mix
    of classes (``mix``, see `class_mix`), the mean of the classes' recalls, weighted by its shares.
    The AUC is the mean over the classes, each against the rest, by the softmax of the scores.
    """
    members = model.members if isinstance(model, SeparateModels) else [model]
    accuracies, areas, found = zip(*(_judge_one(member, data) for member in members), strict=True)
    mixes = mix[mix.sum(axis=1) > 0]
    scores = (mixes / mixes.sum(axis=1, keepdims=True) * np.array(found)).sum(axis=1)
    tested = np.isin(np.arange(data.class_count), data.test_labels)
    recalls = np.mean(found, axis=0)
    figures = {
        "accuracy": fmean(accuracies),
        "balanced_accuracy": float(recalls[tested].mean()),
        "auc": fmean(areas),
        "recalls": [share if seen else None for share, seen in zip(recalls, tested, strict=True)],
        "per_client": scores.tolist(),
    }
    if isinstance(model, SeparateModels):
        figures |= {"clients_deviation": float(np.std(accuracies)), "worst_client": min(accuracies)}
    return figures


def judge_real_clients(model: Predictor | SeparateModels, data: DataSet) -> Figures:
    """Accuracy and balanced accuracy on each real client's own test samples, and their means.

    Of separate models, a client's own is judged.
    """
    clients: list[Figures] = []
    for number, name in enumerate(data.client_names):
        own = np.asarray(data.test_clients) == number
        if not own.any():
            continue
        member = model.members[number] if isinstance(model, SeparateModels) else model
        labels = data.test_labels[own]
        predicted = predict(member, data.test[own])
        # The mean over the classes that the client has: a prediction of another is an error.
        recall = recall_score(labels, predicted, labels=np.unique(labels), average="macro")
        line = {
            "client": name,
            "samples": int(own.sum()),
            "accuracy": float(accuracy_score(labels, predicted)),
            "balanced_accuracy": float(recall),
        }
        clients.append(line)
    return {
        "real_clients": clients,
        "clients_accuracy": fmean(line["accuracy"] for line in clients),
        "clients_balanced": fmean(line["balanced_accuracy"] for line in clients),
    }


def _judge_one(model: Predictor, data: DataSet) -> tuple[float, float, NDArray[np.float64]]:
    """Accuracy, AUC and every class's recall."""
    labels, classes = data.test_labels, np.arange(data.class_count)
    scores = model.decision_function(data.test)
    known = np.asarray(getattr(model, "class_names", classes))
    if scores.shape != (len(labels), len(known)):
        raise InvalidInput(
            f"a model's scores have shape {scores.shape}; expected ({len(labels)}, {len(known)}): "
            "a row for each sample, a column for each class"
        )
    predicted = known[np.argmax(scores, axis=1)]
    ranked = np.isin(known, labels)
    truth = labels[:, None] == known[ranked]
    posterior = log_softmax(scores[:, ranked].astype(np.float64), axis=1)
    # A class without training samples may score minus infinity, which roc_auc_score refuses.
    area = roc_auc_score(truth, np.nan_to_num(posterior))
    recalls = recall_score(labels, predicted, labels=classes, average=None, zero_division=0.0)
    return float(accuracy_score(labels, predicted)), float(area), recalls


def measure_partition(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """How many samples of each class every client holds; means over clients with samples."""
    mix = class_mix(data.train_labels, task_of(data, cell, progress).parts)
    sizes = mix.sum(axis=1)
    holders = mix[sizes > 0]
    return {
        "least_samples": int(sizes.min()),
        "most_samples": int(sizes.max()),
        "mean_classes": float((holders > 0).sum(axis=1).mean()),
        "class_mix": mix.tolist(),
    }


def _prepare(data: DataSet, cell: Cell, progress: Progress) -> tuple[Task, safle.Settings, Encoder]:
    settings = safle.METHOD.settings(cell.settings)
    task = task_of(data, cell, progress)
    encoder, _ = safle.shared_encoder(task, settings)
    return task, settings, encoder


def measure_ridge(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """Test accuracy over the ridge, and at the ridges chosen from the statistics alone."""
    task, settings, encoder = _prepare(data, cell, lambda share: progress(0.4 * share))
    statistics, _ = safle.count_clients(task, encoder)

    def try_ridge(ridge: float | str, criterion: str = "gcv") -> tuple[float, float]:
        solution = safle.solve_by(settings, statistics, ridge=ridge, criterion=criterion)
        return solution.ridge, task.accuracy(Model.of(encoder, solution))

    chosen = {name: try_ridge("auto", name) for name in ("gcv", "evidence")}
    curve = []
    for done, octave in enumerate(cell.octaves, start=1):
        curve.append(list(try_ridge(chosen["gcv"][0] * 2.0**octave)))
        progress(0.5 + 0.5 * done / len(cell.octaves))
    return {
        "accuracy": chosen["gcv"][1],
        "ridge_gcv": chosen["gcv"][0],
        "accuracy_evidence": chosen["evidence"][1],
        "ridge_evidence": chosen["evidence"][0],
        "best_of_curve": max(accuracy for _, accuracy in curve),
        "curve": curve,
        "columns": encoder.layout.dim,
    }


def measure_unlearning(data: DataSet, cell: Cell, progress: Progress) -> Figures:
    """Clients leave: taking back their counts against counting all other clients again."""
    task, settings, encoder = _prepare(data, cell, lambda share: progress(0.5 * share))
    holders = task.holders
    if cell.leaving >= len(holders):
        raise SettingsError(
            f"unlearning: {cell.leaving} clients leave and {len(holders)} hold samples; expected "
            "fewer: set leaving under [unlearning], or more clients under [federation]"
        )
    order = np.random.default_rng([task.seed, 3]).permutation(len(holders))

    def count(chosen: NDArray[np.int64]) -> Statistics:
        return safle.count_clients(replace(task, parts=[holders[i] for i in chosen]), encoder)[0]

    everybody, leaving = count(order), count(order[: cell.leaving])
    begin = time.perf_counter()
    remaining = everybody - leaving
    removing = time.perf_counter() - begin
    begin = time.perf_counter()
    recounted = count(order[cell.leaving :])
    retraining = time.perf_counter() - begin
    before, after, retrained = (
        Model.of(encoder, safle.solve_by(settings, statistics))
        for statistics in (everybody, remaining, recounted)
    )
    return {
        "accuracy": task.accuracy(after),
        "accuracy_before": task.accuracy(before),
        "same_statistics": encode(remaining) == encode(recounted),
        "same_model": after.to_bytes() == retrained.to_bytes(),
        "digest": after.digest,
        "digest_retrained": retrained.digest,
        "digest_before": before.digest,
        "samples_removed": leaving.sample_count,
        "seconds_removing": removing,
        "seconds_retraining": retraining,
    }


MEASURES: dict[str, Measure] = {
    "method": measure_method,
    "partition": measure_partition,
    "ridge": measure_ridge,
    "unlearning": measure_unlearning,
}
