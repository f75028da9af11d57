"""One round of local heads: averaged, or kept and asked for their votes.

Guha, Talwalkar, Smith: "One-Shot Federated Learning", 2019.

Clients train a head each, to the end, and send it once. Averaging takes the mean of the
weights; ensembling keeps all heads and averages their probabilities, weighted by sample
counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safle.lab.baselines.base import Method, Result, Stopwatch, Task, digest_of, message
from safle.lab.baselines.heads import HeadModel, arrays
from safle.lab.baselines.training import RATES, LocalTraining, Trainer, mean_head


@dataclass(frozen=True)
class Settings(LocalTraining):
    """What one-shot methods can be told; ``join`` is "average" or "ensemble"."""

    epochs: int = 20
    join: str = "average"


def run(task: Task, settings: Settings) -> Result:
    """One round of local training, then the heads are joined."""
    watch = Stopwatch()
    trainer = Trainer(task, settings)
    done = trainer.train()
    size = float(len(message(arrays(trainer.server))))
    if settings.join == "average":
        model, down = HeadModel(mean_head(done)), size
    else:
        # Everybody gets everybody's head.
        model, down = HeadModel(done.local, done.weights.numpy()), size * len(trainer.parts)
    seconds = watch.seconds
    named = {str(at): np.asarray(parameter) for at, parameter in enumerate(model.parameters)}
    return Result.of_one_round(task, model, seconds, up=size, down=down, digest=digest_of(named))


AVERAGE, ENSEMBLE = (
    Method(f"one-shot-{join}", title, "one-shot", run, Settings(join=join), grid={"rate": RATES})
    for join, title in (("average", "one-shot averaging"), ("ensemble", "one-shot ensemble"))
)
