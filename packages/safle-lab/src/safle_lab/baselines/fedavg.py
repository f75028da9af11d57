"""FedAvg, and the rounds of the methods built on it: local training, then a weighted average.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: "Communication-Efficient Learning of
Deep Networks from Decentralized Data", AISTATS 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safle_lab.baselines.base import Count, Method, Point, Result, Share, Task
from safle_lab.baselines.heads import HeadModel, head_message, torch
from safle_lab.baselines.training import FEDAVG, RATES, Algorithm, LocalTraining, Trainer


class Rounds(LocalTraining, frozen=True):
    """Local training in rounds, with a share of the clients in each."""

    rounds: Count = 100
    participation: Share = 1.0


class Course:
    """The course of the rounds: their bytes per client, and the accuracy after each."""

    def __init__(self, task: Task, rounds: int) -> None:
        self.task = task
        self.rounds = rounds
        self.sent = 0.0
        self.curve: list[Point] = []
        self.passed = 0

    def advance(self, trainer: Trainer) -> None:
        """One round of the trainer's clients."""
        trainer.round()
        self.passed += 1
        # A client that is not chosen neither receives nor sends.
        share = trainer.chosen_count / len(self.task.holders)
        self.sent += share * len(head_message(trainer.server))
        with self.task.watch.paused():
            if self.task.watched is not None:
                accuracy = self.task.accuracy(HeadModel(trainer.server))
                cost = 2 * self.sent + len(head_message(trainer.server))
                self.curve.append(Point(self.passed, accuracy, cost))
        self.task.progress(self.passed / self.rounds)

    def result(self, server: list[torch.Tensor], **facts: Any) -> Result:
        """The method's result, with the server's last head as the model."""
        content = head_message(server)
        return Result(
            HeadModel(server),
            content,
            bytes_up=self.sent,
            bytes_down=self.sent + len(content),
            rounds=self.passed,
            curve=tuple(self.curve),
            facts=facts,
        )


def iterative(
    name: str,
    title: str,
    algorithm: Algorithm,
    defaults: Rounds,
    grid: Mapping[str, tuple[float, ...]],
    *,
    tuned_like: str = "",
) -> Method[Rounds]:
    """A method of rounds."""

    def run(task: Task, settings: Rounds) -> Result:
        course = Course(task, settings.rounds)
        trainer = Trainer(task, settings, algorithm, participation=settings.participation)
        for _ in range(settings.rounds):
            course.advance(trainer)
        return course.result(trainer.server)

    return Method(name, title, "iterative", run, defaults, grid, tuned_like=tuned_like)


METHOD = iterative("fedavg", "FedAvg", FEDAVG, Rounds(), {"rate": RATES})
