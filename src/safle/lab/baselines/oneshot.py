"""One round of local heads: averaged, or kept and asked for their votes.

Guha, Talwalkar, Smith: "One-Shot Federated Learning", 2019.

Clients train a head each, to the end, and send it once. Averaging takes the mean of the
weights; ensembling keeps all heads and averages their probabilities, weighted by sample
counts.
"""

from __future__ import annotations

import numpy as np

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
from safle.lab.baselines.heads import HeadModel, arrays
from safle.lab.baselines.training import DEFAULTS, RATES, Algorithm, Trainer, mean_head


def run(task: Task, settings: Settings) -> Result:
    """One round of local training, then ``settings["join"]``: average or ensemble."""
    watch = Stopwatch()
    trainer = Trainer(task, {**settings, "participation": 1.0, "rounds": 1})
    done = trainer.train(Algorithm(settings, len(trainer.parts)))
    size = float(len(message(arrays(trainer.server))))
    if settings["join"] == "average":
        model, down = HeadModel(mean_head(done)), size
    else:
        # Everybody gets everybody's head.
        model, down = HeadModel(done.local, done.weights.numpy()), size * len(trainer.parts)
    seconds = watch.seconds
    named = {str(at): np.asarray(parameter) for at, parameter in enumerate(model.parameters)}
    return Result(
        model,
        rounds=1,
        bytes_up=size,
        bytes_down=down,
        seconds=seconds,
        digest=digest_of(named),
        curve=(Point(1, task.accuracy(model), size + down),),
    )


_SHARED = {**{name: DEFAULTS[name] for name in ("batch", "rate", "hidden")}, "epochs": 20}
AVERAGE = Method(
    "one-shot-average",
    "one-shot averaging",
    "one-shot",
    run,
    {**_SHARED, "join": "average"},
    grid={"rate": RATES},
)
ENSEMBLE = Method(
    "one-shot-ensemble",
    "one-shot ensemble",
    "one-shot",
    run,
    {**_SHARED, "join": "ensemble"},
    grid={"rate": RATES},
)
