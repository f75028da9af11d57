"""Heads that clients train alone: averaged, kept and asked for their votes, or left alone.

Guha, Talwalkar, Smith: "One-Shot Federated Learning", 2019.

Clients train a head each, to the end, and send it once. Averaging takes the mean of the
weights; ensembling keeps all heads and averages their probabilities, weighted by sample
counts. "Local" sends nothing: what clients have without a federation.
"""

from dataclasses import dataclass

import numpy as np

from safle_lab.baselines.base import (
    Method,
    Point,
    Predictor,
    Result,
    Separate,
    Stopwatch,
    Task,
    digest_of,
    message,
)
from safle_lab.baselines.heads import HeadModel, arrays
from safle_lab.baselines.training import RATES, LocalTraining, Round, Trainer, mean_head


@dataclass(frozen=True)
class Settings(LocalTraining):
    """What one-shot methods can be told; ``join`` is "average", "ensemble" or "none"."""

    epochs: int = 20
    join: str = "average"


def run(task: Task, settings: Settings) -> Result:
    """One round of local training, then the heads are joined."""
    watch = Stopwatch()
    done = Trainer(task, settings).train()
    if settings.join == "none":
        return _alone(task, done, watch)
    model: Predictor
    if settings.join == "average":
        heads = [mean_head(done)]
        model = HeadModel(heads[0])
    else:
        # Everybody gets everybody's head.
        heads = [[p[at : at + 1] for p in done.local] for at in range(len(done.clients))]
        model = HeadModel(done.local, done.weights.numpy())
    sent = [message(arrays(head)) for head in heads]
    return Result.of_one_round(task, model, watch, up=float(len(sent[0])), down=b"".join(sent))


def _alone(task: Task, done: Round, watch: Stopwatch) -> Result:
    """Every client keeps its own head, and nothing is sent."""
    rows = np.argsort(done.clients)
    model = Separate([HeadModel([p[at : at + 1] for p in done.local]) for at in rows])
    seconds, digest = (
        watch.seconds,
        digest_of({f"{n}": p.numpy() for n, p in enumerate(done.local)}),
    )
    curve = (Point(0, task.accuracy(model), 0.0),)
    return Result(model, 0, 0.0, 0.0, seconds, digest, curve)


GRID = {"rate": RATES}
AVERAGE = Method("one-shot-average", "one-shot averaging", "one-shot", run, Settings(), GRID)
ENSEMBLE = Method(
    "one-shot-ensemble", "one-shot ensemble", "one-shot", run, Settings(join="ensemble"), GRID
)
LOCAL = Method("local", "Local", "one-shot", run, Settings(join="none"), GRID)
