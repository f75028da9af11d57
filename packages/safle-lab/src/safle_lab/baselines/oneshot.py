"""Heads that clients train alone: averaged, joined to an ensemble, or kept local.

Guha, Talwalkar, Smith: "One-Shot Federated Learning", 2019.

Clients train a head each, to the end, and send it once. Averaging takes the mean of the
weights; ensembling keeps all heads and averages their probabilities, weighted by sample
counts. "Local" sends nothing: clients keep their heads, as without a federation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from safle_lab.baselines.base import Count, Features, Method, Result, SeparateModels, Task
from safle_lab.baselines.heads import HeadModel, head_message, head_of
from safle_lab.baselines.training import FEW_RATES, LocalTraining, Trainer, mean_head


class Settings(LocalTraining, frozen=True):
    """The settings of one-shot methods; ``join`` says how the heads become one model."""

    epochs: Count = 20
    join: Literal["average", "ensemble", "none"] = "average"


@dataclass(frozen=True)
class Ensemble:
    """Heads whose probabilities are averaged, weighted by ``shares``, (heads,)."""

    heads: Sequence[HeadModel]
    shares: NDArray[np.float32]

    def decision_function(self, features: Features) -> NDArray[np.float32]:
        """Logarithms of the mean probabilities, (samples, class_count)."""
        votes = [np.exp(head.decision_function(features)) for head in self.heads]
        return np.log(np.einsum("k,ksc->sc", self.shares, votes))


def run(task: Task, settings: Settings) -> Result:
    """One round of local training, then the heads are joined."""
    done = Trainer(task, settings).train()
    if settings.join == "average":
        head = mean_head(done)
        sent = head_message(head)
        return Result(HeadModel(head), sent, bytes_up=len(sent), bytes_down=len(sent))
    order = np.argsort(done.clients)
    heads = [HeadModel(head_of(done.local, row)) for row in order]
    messages = [head_message(head.parameters) for head in heads]
    content = b"".join(messages)
    if settings.join == "none":
        return Result(SeparateModels(heads), content, bytes_up=0.0, bytes_down=0.0, rounds=0)
    # Every client receives all heads.
    model = Ensemble(heads, done.weights.numpy(force=True)[order])
    return Result(model, content, bytes_up=len(messages[0]), bytes_down=len(content))


GRID = {"rate": FEW_RATES}
AVERAGE = Method("one-shot-average", "one-shot averaging", "one-shot", run, Settings(), GRID)
ENSEMBLE = Method(
    "one-shot-ensemble", "one-shot ensemble", "one-shot", run, Settings(join="ensemble"), GRID
)
LOCAL = Method("local", "Local", "one-shot", run, Settings(join="none"), GRID)
