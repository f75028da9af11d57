"""FedCorr with logit adjustment: clients replace labels that the server's head contradicts.

Xu, Chen, Quek, Chong: "FedCorr: Multi-Stage Federated Learning for Label Noise Correction",
CVPR 2022; the logit adjustment is FedNoRo's comparison "FedCorr+LA" (IJCAI 2023).

Stage one has ``iterations`` rounds with all clients. The term ``strength * noise_k ||w -
w_server||^2`` pulls clients to the server's head. After each round, every client's predictions have
an intrinsic dimensionality; two Gaussians over its sum so far split clients into clean and noisy.
Two Gaussians over a noisy client's losses split its samples likewise: the share with the larger
losses is its noise level. A ``relabelled`` part of these samples, the worst, gets the server's
class if its probability is at least ``confidence``. Stage two, fine-tuning, is FedAvg among clients
with a level up to ``clean``; at its end, all samples of the other clients get the server's class if
it is as probable. Stage three is FedAvg with all clients.

What differs from the paper: a linear head on frozen features is trained, without mixup. The clients
of an iteration start from one head, where the paper trains them one after another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from safle.errors import SettingsError
from safle_lab.baselines.base import Count, Features, Labels, Method, Result, Task
from safle_lab.baselines.fedavg import Course, Rounds
from safle_lab.baselines.fednoro import adjusted_losses, in_larger_component, log_priors
from safle_lab.baselines.heads import HeadModel, head_of, torch
from safle_lab.baselines.training import RATES, Algorithm, Integers, Pull, Round, Trainer

Vector = NDArray[np.float64]


class Settings(Rounds, frozen=True):
    """The settings of FedCorr; ``fine_tuning`` is stage two's share of the other rounds."""

    iterations: Count = 5
    fine_tuning: float = 0.5
    strength: float = 5.0
    neighbours: int = 20
    relabelled: float = 0.5
    confidence: float = 0.5
    clean: float = 0.1

    def __post_init__(self) -> None:
        if self.iterations >= self.rounds:
            raise SettingsError(
                f"{self.iterations} iterations of {self.rounds} rounds; expected rounds after them"
            )


@dataclass(frozen=True)
class Memory:
    """Log-priors and noise levels of the clients, and the heads that came back last."""

    priors: torch.Tensor
    noise: torch.Tensor
    last: Round | None = None


def begin(task: Task, _settings: Settings) -> Memory:
    """The memory before the first round: all clients count as clean."""
    return Memory(log_priors(task), torch.zeros(len(task.holders)))


def proximal_pull(
    clients: Integers, server: list[torch.Tensor], settings: Settings, memory: Memory
) -> Pull:
    """``strength * noise_k ||w - w_server||^2``."""
    return Pull(2 * settings.strength * memory.noise[clients], server)


ALGORITHM = Algorithm(
    pull=proximal_pull,
    remember=lambda done, _settings, memory: replace(memory, last=done),
    begin=begin,
    losses=lambda step, _settings, memory: adjusted_losses(step, memory.priors),
)


def intrinsic_dimensionality(predictions: Features, neighbours: int) -> float:
    """Mean over samples of ``-1 / mean(log(r_i / r_k))``, r the distances to the k nearest.

    Parameters
    ----------
    predictions : probabilities, (samples, class_count)
    """
    nearest = min(neighbours, len(predictions) - 1)
    if nearest < 2:
        return 0.0
    search = NearestNeighbors(n_neighbors=nearest + 1).fit(predictions)
    # The nearest of all is the sample itself.
    distances = np.maximum(search.kneighbors(predictions)[0][:, 1:], 1e-12)
    ratios = np.log(distances / distances[:, -1:]).mean(axis=1)
    return float((-1.0 / np.minimum(ratios, -1e-12)).clip(max=1e3).mean())


def relabel(
    labels: Labels, losses: Vector, predictions: Features, share: float, confidence: float
) -> Labels:
    """Labels of one client; the ``share`` with the largest losses may change to the server's."""
    worst = np.argsort(-losses, kind="stable")[: round(share * len(losses))]
    sure = worst[predictions[worst].max(axis=1) >= confidence]
    corrected = labels.copy()
    corrected[sure] = predictions[sure].argmax(axis=1)
    return corrected


def probabilities(head: list[torch.Tensor], features: Features) -> Features:
    """Probabilities by one head, (samples, class_count)."""
    return np.exp(HeadModel(head).decision_function(features))


def correct(
    task: Task, trainer: Trainer, settings: Settings, dims: Vector
) -> tuple[Labels, Vector]:
    """After an iteration: corrected labels, and every client's noise level; adds to ``dims``."""
    done: Round = trainer.memory.last
    losses = np.zeros(len(task.labels))
    for row, client in enumerate(done.clients):
        part = task.holders[client]
        chances = probabilities(head_of(done.local, row), task.features[part])
        losses[part] = -np.log(np.maximum(chances[np.arange(len(part)), task.labels[part]], 1e-30))
        dims[client] += intrinsic_dimensionality(chances, settings.neighbours)
    labels, levels = task.labels.copy(), np.zeros(len(task.holders))
    for client in np.flatnonzero(in_larger_component(dims[:, None], task.seed)):
        part = task.holders[client]
        levels[client] = in_larger_component(losses[part, None], task.seed).mean()
        opinion = probabilities(trainer.server, task.features[part])
        share = float(levels[client]) * settings.relabelled
        labels[part] = relabel(labels[part], losses[part], opinion, share, settings.confidence)
    return labels, levels


def run(task: Task, settings: Settings) -> Result:
    """All three stages."""
    course, given = Course(task, settings.rounds), task.labels
    trainer = Trainer(task, settings, ALGORITHM)
    dims = np.zeros(len(task.holders))
    for _ in range(settings.iterations):
        course.advance(trainer)
        labels, levels = correct(task, trainer, settings, dims)
        task = replace(task, labels=labels)
        trainer.labels = torch.as_tensor(labels)
        noise = torch.as_tensor(levels.astype(np.float32))
        trainer.memory = replace(trainer.memory, priors=log_priors(task), noise=noise)
    later_rounds = settings.rounds - settings.iterations
    fine_rounds = round(settings.fine_tuning * later_rounds)
    clean = [p for p, level in zip(task.holders, levels, strict=True) if level <= settings.clean]
    server = _average(
        course, replace(task, parts=clean or task.holders), settings, trainer, fine_rounds
    )
    for part, level in zip(task.holders, levels, strict=True):
        if level > settings.clean:
            opinion = probabilities(server, task.features[part])
            corrected = relabel(
                labels[part], np.zeros(len(part)), opinion, 1.0, settings.confidence
            )
            labels[part] = corrected
    task = replace(task, labels=labels)
    trainer.server = server
    server = _average(course, task, settings, trainer, later_rounds - fine_rounds)
    changed = float((labels != given).mean())
    return course.result(server, clean_clients=len(clean), relabelled_share=changed)


def _average(
    course: Course, task: Task, settings: Settings, before: Trainer, rounds: int
) -> list[torch.Tensor]:
    """The server's head after rounds of adjusted FedAvg among the task's clients."""
    trainer = Trainer(task, settings, ALGORITHM, participation=settings.participation)
    trainer.server, trainer.generator = before.server, before.generator
    for _ in range(rounds):
        course.advance(trainer)
    return trainer.server


METHOD = Method("fedcorr", "FedCorr+LA", "iterative", run, Settings(), {"rate": RATES})
