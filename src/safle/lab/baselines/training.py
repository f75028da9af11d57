"""Rounds of local training: the loop that FedAvg and its kin share.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: "Communication-Efficient Learning of
Deep Networks from Decentralized Data", AISTATS 2017.

In a round every chosen client starts from the server's head and takes steps of gradient
descent on its own samples; the server averages, weighted by sample counts. A method
changes the loss (`Algorithm.term`), what clients remember (`Algorithm.after_round`) or
the average (`Algorithm.aggregate`), and nothing else.

All clients train at once: clients are ordered by their number of steps, so those still
at work are a prefix of every parameter, and a step is one batched product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import SettingsError
from safle.lab.baselines.base import (
    Method,
    Point,
    Result,
    Settings,
    Stopwatch,
    Task,
    digest_of,
    message,
)
from safle.lab.baselines.heads import HeadModel, arrays, forward, initial, require_torch, shared

if TYPE_CHECKING:
    import torch

Integers = NDArray[np.int64]
DEFAULTS: dict[str, Any] = {
    "rounds": 100,
    "epochs": 1,
    "batch": 50,
    "rate": 0.1,
    "hidden": 0,
    "participation": 1.0,
}
RATES = (0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True)
class Step:
    """What a method's own term may look at, for the clients that are still at work.

    Attributes
    ----------
    clients : their numbers, (active,)
    parameters, server : their own and the server's head
    inputs : (active, feature_dim, batch)
    labels, share : (active, batch); a sample's share of its client's mean loss, 0 if it
        only fills the batch up
    logits, representation : of their own heads
    """

    clients: Integers
    parameters: list[torch.Tensor]
    server: list[torch.Tensor]
    inputs: torch.Tensor
    labels: torch.Tensor
    share: torch.Tensor
    logits: torch.Tensor
    representation: torch.Tensor


@dataclass(frozen=True)
class Round:
    """What came back from a round.

    Attributes
    ----------
    clients : numbers of the chosen ones, in the order of the parameters
    weights : their shares of the samples, (clients,), adding up to 1
    steps : how many each took, (clients,)
    server, local : heads before and after
    """

    clients: Integers
    weights: torch.Tensor
    steps: Integers
    server: list[torch.Tensor]
    local: list[torch.Tensor]


class Algorithm:
    """FedAvg; a method overrides what it does differently."""

    def __init__(self, settings: Settings, client_count: int) -> None:
        self.settings = settings
        self.client_count = client_count

    def term(self, step: Step) -> torch.Tensor | None:
        """What the method adds to the loss, (active,); None where it adds nothing."""
        del step
        return None

    def aggregate(self, done: Round) -> list[torch.Tensor]:
        """The server's next head: the mean, weighted by sample counts."""
        return mean_head(done)

    def after_round(self, done: Round) -> None:
        """What clients and server remember of a round."""


def mean_head(done: Round) -> list[torch.Tensor]:
    """Weighted mean of the clients' heads."""
    weights = done.weights[:, None, None]
    return [(weights * local).sum(dim=0, keepdim=True) for local in done.local]


class Trainer:
    """The federation in training: samples, who holds them, and the server's head."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.torch = require_torch()
        self.settings = settings
        self.parts = task.holders
        self.sizes = np.array([len(part) for part in self.parts])
        self.features = self.torch.from_numpy(np.ascontiguousarray(task.features))
        self.labels = self.torch.from_numpy(np.ascontiguousarray(task.labels))
        self.generator = np.random.default_rng(task.seed)
        rows = len(self.parts) * int(settings["batch"])
        # Kept for all steps: fresh memory would take longer than the step itself.
        self.gathered = self.torch.empty(rows, task.feature_dim)
        _check(settings)
        self.server = initial(
            task.feature_dim, task.class_count, hidden=int(settings["hidden"]), seed=task.seed
        )

    def round(self, algorithm: Algorithm) -> Round:
        """One round of the chosen clients; the server's head is replaced."""
        done = self.train(algorithm)
        self.server = algorithm.aggregate(done)
        algorithm.after_round(done)
        return done

    def train(self, algorithm: Algorithm) -> Round:
        """Local training of the chosen clients from the server's head."""
        chosen, batches, steps = self._plan()
        local = [parameter.repeat(len(chosen), 1, 1) for parameter in self.server]
        for number in range(int(steps[0])):
            active = int((steps > number).sum())
            self._step(algorithm, chosen[:active], batches[:active, number], local)
        sizes = self.sizes[chosen]
        weights = self.torch.from_numpy((sizes / sizes.sum()).astype(np.float32))
        return Round(chosen, weights, steps, self.server, local)

    def _plan(self) -> tuple[Integers, Integers, Integers]:
        """Chosen clients, their batches (clients, steps, batch; -1 fills up), their steps."""
        batch, epochs = int(self.settings["batch"]), int(self.settings["epochs"])
        count = max(1, round(self.settings["participation"] * len(self.parts)))
        chosen = self.generator.permutation(len(self.parts))[:count]
        per_epoch = -(-self.sizes[chosen] // batch)
        order = np.argsort(-per_epoch, kind="stable")
        chosen, per_epoch = chosen[order], per_epoch[order]
        batches = np.full((count, int(per_epoch[0]) * epochs, batch), -1, np.int64)
        for row, (client, length) in enumerate(zip(chosen, per_epoch, strict=True)):
            for epoch in range(epochs):
                samples = self.generator.permutation(self.parts[client])
                filled = batches[row, epoch * length : (epoch + 1) * length].reshape(-1)
                filled[: len(samples)] = samples
        return chosen, batches, per_epoch * epochs

    def _step(
        self, algorithm: Algorithm, clients: Integers, samples: Integers, local: list[torch.Tensor]
    ) -> None:
        torch, active = self.torch, len(clients)
        real = torch.from_numpy(samples >= 0)
        places = torch.from_numpy(np.maximum(samples, 0))
        flat = places.reshape(-1)
        rows = torch.index_select(self.features, 0, flat, out=self.gathered[: len(flat)])
        inputs = rows.view(*places.shape, -1).transpose(1, 2)
        labels = self.labels[places]
        share = real / real.sum(dim=1, keepdim=True)
        own = [parameter[:active].detach().requires_grad_() for parameter in local]
        logits, representation = forward(own, inputs)
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        loss = (losses * share).sum()
        server = shared(self.server, active)
        step = Step(clients, own, server, inputs, labels, share, logits, representation)
        term = algorithm.term(step)
        if term is not None:
            loss = loss + term.sum()
        gradients = torch.autograd.grad(loss, own)
        for parameter, gradient in zip(local, gradients, strict=True):
            parameter[:active].sub_(gradient, alpha=float(self.settings["rate"]))


def _check(settings: Settings) -> None:
    for name in ("rounds", "epochs", "batch"):
        if int(settings[name]) < 1:
            raise SettingsError(f"{name} is {settings[name]}; expected at least 1")
    if not 0 < settings["participation"] <= 1:
        raise SettingsError(f"participation is {settings['participation']}; expected 0 to 1")
    if not settings["rate"] > 0 or int(settings["hidden"]) < 0:
        raise SettingsError("rate must be positive, and hidden at least 0")


def run_rounds(
    make: Callable[[Settings, int], Algorithm], task: Task, settings: Settings
) -> Result:
    """All rounds of an algorithm, the accuracy recorded after each."""
    watch = Stopwatch()
    trainer = Trainer(task, settings)
    algorithm = make(settings, len(trainer.parts))
    rounds, size = int(settings["rounds"]), len(message(arrays(trainer.server)))
    # Who is not chosen neither receives nor sends.
    each = size * max(1, round(settings["participation"] * len(trainer.parts))) / len(trainer.parts)
    curve = []
    for number in range(1, rounds + 1):
        trainer.round(algorithm)
        with watch.paused():
            if task.watched is not None:
                accuracy = task.accuracy(HeadModel(trainer.server))
                curve.append(Point(number, accuracy, 2 * each * number))
        task.progress(number / rounds)
    return Result(
        HeadModel(trainer.server),
        rounds=rounds,
        bytes_up=each * rounds,
        bytes_down=each * rounds,
        seconds=watch.seconds,
        digest=digest_of(arrays(trainer.server)),
        curve=tuple(curve),
    )


def iterative(
    name: str,
    title: str,
    algorithm: type[Algorithm],
    *,
    defaults: Settings | None = None,
    grid: dict[str, tuple[Any, ...]] | None = None,
    tuned_like: str = "",
) -> Method:
    """A method of this loop: its algorithm and the settings of its own."""

    def run(task: Task, settings: Settings) -> Result:
        return run_rounds(algorithm, task, settings)

    return Method(
        name,
        title,
        "iterative",
        run,
        {**DEFAULTS, **(defaults or {})},
        grid or {},
        tuned_like=tuned_like,
    )
