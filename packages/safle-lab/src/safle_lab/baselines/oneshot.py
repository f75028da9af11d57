"""Heads that clients train alone: averaged, kept and asked for their votes, or left alone.

Guha, Talwalkar, Smith: "One-Shot Federated Learning", 2019.

Clients train a head each, to the end, and send it once. Averaging takes the mean of the
weights; ensembling keeps all heads and averages their probabilities, weighted by sample
counts. "Local" sends nothing: what clients have without a federation.
"""

from typing import Literal

import numpy as np

from safle_lab.baselines.base import Count, Method, Result, SeparateModels, Task, message
from safle_lab.baselines.heads import HeadModel, arrays
from safle_lab.baselines.training import RATES, LocalTraining, Round, Trainer, mean_head


class Settings(LocalTraining, frozen=True):
    """The settings of one-shot methods; ``join`` says how the heads become one model."""

    epochs: Count = 20
    join: Literal["average", "ensemble", "none"] = "average"


def run(task: Task, settings: Settings) -> Result:
    """One round of local training, then the heads are joined."""
    done = Trainer(task, settings).train()
    if settings.join == "none":
        return _alone(done)
    if settings.join == "average":
        head = mean_head(done)
        sent = message(arrays(head))
        return Result(HeadModel(head), sent, bytes_up=len(sent), bytes_down=len(sent))
    # Everybody gets everybody's head.
    heads = [[p[at : at + 1] for p in done.local] for at in range(len(done.clients))]
    own = message(arrays(heads[0]))
    everything = b"".join(message(arrays(head)) for head in heads)
    model = HeadModel(done.local, done.weights.numpy())
    return Result(model, everything, bytes_up=len(own), bytes_down=len(everything))


def _alone(done: Round) -> Result:
    """Every client keeps its own head, and nothing is sent."""
    rows = np.argsort(done.clients)
    model = SeparateModels([HeadModel([p[at : at + 1] for p in done.local]) for at in rows])
    content = message({f"{number}": p.numpy() for number, p in enumerate(done.local)})
    return Result(model, content, bytes_up=0.0, bytes_down=0.0, rounds=0)


GRID = {"rate": RATES}
AVERAGE = Method("one-shot-average", "one-shot averaging", "one-shot", run, Settings(), GRID)
ENSEMBLE = Method(
    "one-shot-ensemble", "one-shot ensemble", "one-shot", run, Settings(join="ensemble"), GRID
)
LOCAL = Method("local", "Local", "one-shot", run, Settings(join="none"), GRID)
