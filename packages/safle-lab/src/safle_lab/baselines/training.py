"""Local training: a round of FedAvg, and of the methods that build on it, at the clients.

Every chosen client starts from the server's head and takes steps of gradient descent on its
samples. An `Algorithm` changes only the loss, the memory between rounds, or the average.

All clients train at once. They are ordered by their number of steps, so the active clients, which
have steps left, are a prefix of every parameter, and a step is one batched product. torch does not
differentiate what has a closed form: the gradient of a linear head is an outer product, and a term
that pulls a head towards another (`Pull`) is a step in that direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from safle_lab.baselines.base import Count, MethodSettings, Positive, Task
from safle_lab.baselines.heads import forward, initial, torch

Integers = NDArray[np.int64]
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Candidates: frozen features can be long, and steps are stable up to some 4 / (squared length)."""
FEW_RATES = (0.001, 0.01, 0.1)
"""Candidates for methods that have other settings to choose, or take long."""


class LocalTraining(MethodSettings, frozen=True):
    """How a client trains: epochs over its samples, batch size, learning rate, hidden units."""

    epochs: Count = 1
    batch: Count = 50
    rate: Positive = 0.1
    hidden: Annotated[int, Meta(ge=0)] = 0


@dataclass(frozen=True)
class Step:
    """The inputs of a method's losses, for the active clients.

    Attributes
    ----------
    clients : numbers of the active clients, (active,)
    server : the server's head
    inputs : (active, feature_dim, batch)
    labels : (active, batch)
    logits, representation : outputs of the clients' heads
    """

    clients: Integers
    server: list[torch.Tensor]
    inputs: torch.Tensor
    labels: torch.Tensor
    logits: torch.Tensor
    representation: torch.Tensor


@dataclass(frozen=True)
class Pull:
    """``strength/2 ||w - target||^2`` in every client's loss, for a whole round.

    Attributes
    ----------
    strength : (clients,)
    target : a head for every client, (clients, ...), or one for all, (1, ...)
    """

    strength: torch.Tensor
    target: list[torch.Tensor]

    def apply(self, parameters: list[torch.Tensor], rate: float) -> None:
        """A step of gradient descent on this term, for the active clients, in place."""
        active = len(parameters[0])
        share = rate * self.strength[:active, None, None]
        for parameter, target in zip(parameters, self.target, strict=True):
            parameter.lerp_(target[:active], share)


@dataclass(frozen=True)
class Round:
    """The outcome of a round.

    Attributes
    ----------
    clients : numbers of the chosen clients, (clients,), in the order of the parameters
    client_count : number of all clients, chosen or not
    weights : the chosen clients' shares of the samples, (clients,), adding up to 1
    steps : number of steps of every chosen client, (clients,)
    server, local : heads before and after
    """

    clients: Integers
    client_count: int
    weights: torch.Tensor
    steps: Integers
    server: list[torch.Tensor]
    local: list[torch.Tensor]


def mean_head(done: Round, *_: Any) -> list[torch.Tensor]:
    """The clients' heads, averaged with their weights: FedAvg."""
    weights = done.weights[:, None, None]
    return [(weights * local).sum(dim=0, keepdim=True) for local in done.local]


def cross_entropies(step: Step, *_: Any) -> torch.Tensor:
    """Every sample's loss, (active, batch)."""
    return torch.nn.functional.cross_entropy(step.logits, step.labels, reduction="none")


@dataclass(frozen=True)
class Algorithm:
    """What a method does differently from FedAvg, as pure functions.

    Attributes
    ----------
    losses : (step, settings, memory) -> every sample's loss, (active, batch)
    pull : (clients, server, settings, memory) -> a term in every client's loss, or None
    begin : (task, settings) -> the memory before the first round
    remember : (round, settings, memory) -> the next memory
    aggregate : (round, settings, the next memory) -> the server's next head
    """

    losses: Callable[[Step, Any, Any], torch.Tensor] = cross_entropies
    pull: Callable[[Integers, list[torch.Tensor], Any, Any], Pull | None] = lambda *_: None
    begin: Callable[[Task, Any], Any] = lambda *_: None
    remember: Callable[[Round, Any, Any], Any] = lambda *_: None
    aggregate: Callable[[Round, Any, Any], list[torch.Tensor]] = mean_head


FEDAVG = Algorithm()
"""FedAvg itself: it changes nothing."""


class Trainer:
    """The federation in training: samples, their partition, the server's head, the memory."""

    def __init__(
        self,
        task: Task,
        settings: LocalTraining,
        algorithm: Algorithm = FEDAVG,
        *,
        participation: float = 1.0,
    ) -> None:
        self.settings, self.algorithm = settings, algorithm
        self.parts = task.holders
        self.sizes = np.array([len(part) for part in self.parts])
        self.chosen_count = max(1, round(participation * len(self.parts)))
        self.features = torch.as_tensor(np.ascontiguousarray(task.features))
        self.labels = torch.as_tensor(np.ascontiguousarray(task.labels))
        self.generator = np.random.default_rng(task.seed)
        # Kept for all steps: fresh memory would take longer than the step itself.
        self.gathered = torch.empty(len(self.parts) * settings.batch, task.feature_dim)
        self.memory: Any = algorithm.begin(task, settings)
        self.server = initial(
            task.feature_dim, task.class_count, hidden=settings.hidden, seed=task.seed
        )

    def round(self) -> None:
        """One round of the chosen clients; the server's head is replaced."""
        done = self.train()
        self.memory = self.algorithm.remember(done, self.settings, self.memory)
        self.server = self.algorithm.aggregate(done, self.settings, self.memory)

    def train(self) -> Round:
        """Local training of the chosen clients from the server's head."""
        chosen, batches, steps = self.plan()
        local = [parameter.repeat(len(chosen), 1, 1) for parameter in self.server]
        pull = self.algorithm.pull(chosen, self.server, self.settings, self.memory)
        for number in range(int(steps[0])):
            active = int((steps > number).sum())
            active_heads = [parameter[:active] for parameter in local]
            self._descend(chosen[:active], batches[:active, number], active_heads, pull)
        sizes = self.sizes[chosen]
        weights = torch.as_tensor((sizes / sizes.sum()).astype(np.float32))
        return Round(chosen, len(self.parts), weights, steps, self.server, local)

    def plan(self) -> tuple[Integers, Integers, Integers]:
        """Draw clients, their batches (clients, steps, batch; -1 fills up) and their steps."""
        batch, epochs = self.settings.batch, self.settings.epochs
        chosen = self.generator.permutation(len(self.parts))[: self.chosen_count]
        per_epoch = -(-self.sizes[chosen] // batch)
        order = np.argsort(-per_epoch, kind="stable")
        chosen, per_epoch = chosen[order], per_epoch[order]
        batches = np.full((len(chosen), int(per_epoch[0]) * epochs, batch), -1, np.int64)
        for row, (client, length) in enumerate(zip(chosen, per_epoch, strict=True)):
            for epoch in range(epochs):
                samples = self.generator.permutation(self.parts[client])
                filled = batches[row, epoch * length : (epoch + 1) * length].reshape(-1)
                filled[: len(samples)] = samples
        return chosen, batches, per_epoch * epochs

    def _descend(
        self, clients: Integers, samples: Integers, heads: list[torch.Tensor], pull: Pull | None
    ) -> None:
        """A step of gradient descent of ``heads``, those of the active clients, in place."""
        rate = self.settings.rate
        inputs, labels, share = self._batch(samples)
        # Behind hidden layers torch differentiates; a linear head's gradient is an outer product.
        leaves = [parameter.detach().requires_grad_() for parameter in heads]
        if self.settings.hidden:
            logits, representation = forward(leaves, inputs)
        else:
            logits, representation = forward(heads, inputs)
            leaves = [logits.requires_grad_()]
        server = [parameter.expand(len(clients), -1, -1) for parameter in self.server]
        step = Step(clients, server, inputs, labels, logits, representation)
        loss = (self.algorithm.losses(step, self.settings, self.memory) * share).sum()
        gradients = torch.autograd.grad(loss, leaves)
        if pull is not None:
            pull.apply(heads, rate)
        if self.settings.hidden:
            for parameter, gradient in zip(heads, gradients, strict=True):
                parameter.sub_(gradient, alpha=rate)
        else:
            weights, bias = heads
            weights.baddbmm_(gradients[0], inputs.mT, alpha=-rate)
            bias.sub_(gradients[0].sum(dim=2, keepdim=True), alpha=rate)

    def _batch(self, samples: Integers) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Inputs and labels of a step, see `Step`, and every sample's share of the mean loss.

        ``samples`` are (active, batch); -1 only fills the batch up, and has a share of 0.
        """
        is_sample = torch.as_tensor(samples >= 0)
        places = torch.as_tensor(np.maximum(samples, 0))
        flat = places.reshape(-1)
        rows = torch.index_select(self.features, 0, flat, out=self.gathered[: len(flat)])
        inputs = rows.view(*places.shape, -1).transpose(1, 2)
        return inputs, self.labels[places], is_sample / is_sample.sum(dim=1, keepdim=True)
