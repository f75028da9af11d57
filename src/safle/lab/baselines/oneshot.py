"""One round of local heads: averaged, or kept and asked for their votes.

Guha, Talwalkar, Smith: "One-Shot Federated Learning", 2019.

Clients train a head each, to the end, and send it once. Averaging takes the mean of the
weights; ensembling keeps all heads and averages their probabilities, weighted by sample
counts.
"""

from dataclasses import dataclass

from safle.lab.baselines.base import Method, Result, Stopwatch, Task, message
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
    done = Trainer(task, settings).train()
    if settings.join == "average":
        heads = [mean_head(done)]
        model = HeadModel(heads[0])
    else:
        # Everybody gets everybody's head.
        heads = [[p[at : at + 1] for p in done.local] for at in range(len(done.clients))]
        model = HeadModel(done.local, done.weights.numpy())
    sent = [message(arrays(head)) for head in heads]
    return Result.of_one_round(task, model, watch, up=float(len(sent[0])), down=b"".join(sent))


AVERAGE, ENSEMBLE = (
    Method(f"one-shot-{join}", title, "one-shot", run, Settings(join=join), grid={"rate": RATES})
    for join, title in (("average", "one-shot averaging"), ("ensemble", "one-shot ensemble"))
)
