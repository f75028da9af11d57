"""FedKD: local heads label public samples once, and a server's head learns from their votes.

Gong, Sharma, Karanam, Wu, Chen, Doermann, Innanje: "Preserving Privacy in Federated Learning
with Ensemble Cross-Domain Knowledge Distillation", AAAI 2022.

Every client trains a head to the end and sends the probabilities that it predicts for public
samples, which everybody has and nobody has labelled. A client's vote on a class is weighted by
its share of that class: ``p(c | x) ~ sum_k (n_kc / n_c) p_k(c | x)``. The server trains its head
towards p with a learning rate of its own: on soft targets of all classes, gradient descent
diverges at rates at which clients with a few classes each still converge.

What differs from the paper: heads are linear, on frozen features, and clients send
probabilities without rounding or noise. The public samples are a ``public`` share of the
training samples, taken from all clients, without labels. They resemble the other samples,
which flatters the method; the paper's public samples are of another domain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from safle_lab.baselines.base import Count, Features, Method, Positive, Result, Task, message
from safle_lab.baselines.fednoro import class_sums
from safle_lab.baselines.heads import HeadModel, forward, head_message, head_of, initial, torch
from safle_lab.baselines.training import FEW_RATES, LocalTraining, Round, Trainer


class Settings(LocalTraining, frozen=True):
    """The settings of FedKD.

    Attributes
    ----------
    public : share of the training samples that everybody has, without labels
    distilling : epochs in which the server learns from the public samples
    distilling_rate : learning rate of the server in these epochs
    """

    epochs: Count = 20
    public: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    distilling: Count = 50
    distilling_rate: Positive = 0.003


def set_aside(task: Task, share: float) -> tuple[Task, Features]:
    """The task without its public samples, and the features of the public samples."""
    drawn = np.random.default_rng([task.seed, 4]).random(len(task.labels)) < share
    private = replace(task, parts=[part[~drawn[part]] for part in task.holders])
    return private, task.features[drawn]


def weigh_votes(votes: NDArray[np.float32], counts: NDArray[np.float64]) -> NDArray[np.float32]:
    """The ensemble's probabilities, (samples, class_count), from those of every client."""
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    sums = np.einsum("ksc,kc->sc", votes, shares)
    return (sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-30)).astype(np.float32)


def distil(
    features: Features, targets: NDArray[np.float32], settings: Settings, seed: int
) -> list[torch.Tensor]:
    """A head trained towards ``targets``, (samples, class_count), by gradient descent."""
    generator = np.random.default_rng([seed, 5])
    head = initial(features.shape[1], targets.shape[1], hidden=settings.hidden, seed=seed)
    inputs = torch.as_tensor(features)
    target_rows = torch.as_tensor(targets)
    for _ in range(settings.distilling):
        order = torch.as_tensor(generator.permutation(len(features)))
        for batch in order.split(settings.batch):
            leaves = [parameter.requires_grad_() for parameter in head]
            logs = torch.log_softmax(forward(leaves, inputs[batch].T[None])[0][0], dim=0)
            loss = -(target_rows[batch].T * logs).sum(dim=0).mean()
            gradients = torch.autograd.grad(loss, leaves)
            pairs = zip(leaves, gradients, strict=True)
            head = [p.detach() - settings.distilling_rate * g for p, g in pairs]
    return head


def votes_of(done: Round, features: Features) -> NDArray[np.float32]:
    """Probabilities by every client's head, in the clients' order, (clients, samples, classes)."""
    heads = [HeadModel(head_of(done.local, row)) for row in np.argsort(done.clients)]
    return np.exp(np.array([head.decision_function(features) for head in heads]))


def run(task: Task, settings: Settings) -> Result:
    """One round: clients vote on public samples, and the server's head learns from the votes."""
    private, public = set_aside(task, settings.public)
    votes = votes_of(Trainer(private, settings).train(), public)
    targets = weigh_votes(votes, class_sums(private))
    head = distil(public, targets, settings, task.seed)
    up = message({"votes": votes[0], "counts": class_sums(private)[0]})
    down = head_message(head)
    return Result(HeadModel(head), down, bytes_up=len(up), bytes_down=len(down))


GRID = {"rate": FEW_RATES, "distilling_rate": (0.001, 0.003, 0.01)}
METHOD = Method("fedkd", "FedKD", "one-shot", run, Settings(), GRID)
