"""Megabytes: what a client sends and receives until it holds the final model.

It is the column of README's table, by the rule of docs/experiments.md and from the messages
themselves, as bytes. A hundred clients share the training samples by alpha=0.1.

Messages of gradient descent and of dense float matrices have one size, whatever a client holds.
Those methods therefore run on few samples, every round and layer of them, and training is short:
their bytes are those of a whole run, their models are not. The others run on everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.report import Outcome, note
from benchmarks.settings import Settings
from safle_lab.baselines import Result, Task, method_named
from safle_lab.partitions import partition

CLIENTS, QUICK_CLIENTS = 100, 5
SCENARIO = "alpha=0.1"
FEW = 2_000
"""Samples of methods whose messages have one size; all clients hold some of them."""
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Row:
    """A line of README's table; ``fixed`` if a client's samples do not decide its bytes."""

    title: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    fixed: bool = False


ROWS = (
    Row(
        "FedAvg, a tenth of the clients per round",
        "fedavg",
        {"rounds": 200, "participation": 0.1},
        fixed=True,
    ),
    Row("FedAvg, all clients", "fedavg", {"rounds": 100}, fixed=True),
    Row("AFL", "afl", fixed=True),
    Row("SAFLe, as in its paper", "safle", {"buckets": 8, "group_size": 2}),
    Row("DeepAFL", "deepafl", fixed=True),
    Row("safle, the smallest", "safle-smallest"),
    Row("safle, the default", "safle-default"),
)


def run(settings: Settings) -> Outcome:
    """Every row of README's table."""
    dataset = data.load(settings)
    clients = QUICK_CLIENTS if settings.quick else CLIENTS
    rows = []
    for row in ROWS:
        note(f"megabytes: {row.title} ...")
        result = measure(row, dataset, clients, whole=settings.quick or not row.fixed)
        rows.append({"method": row.title, "rounds": result.rounds, **_megabytes(result)})
    header = ["method", "rounds", "MB up", "MB down", "MB per client"]
    shown = [[f"{v:.3g}" if isinstance(v, float) else f"{v}" for v in r.values()] for r in rows]
    return Outcome(
        figures={"rows": rows, "clients": clients},
        data=dataset.source,
        compared="nothing: bytes stand side by side",
        tables={f"What a client sends and receives: {dataset.source}": [header, *shown]},
    )


def measure(row: Row, dataset: data.Dataset, clients: int, *, whole: bool) -> Result:
    """A method's result on all samples, or on few that everybody holds some of."""
    features, labels = dataset.train, dataset.train_labels
    scenario = SCENARIO
    if not whole:
        chosen = np.random.default_rng(0).permutation(len(labels))[:FEW]
        features, labels = features[chosen], labels[chosen]
        scenario = "iid"
    generator = np.random.default_rng([0, 1])
    parts = partition(labels, scenario, clients=clients, generator=generator)
    task = Task(features, labels, parts, class_count=int(dataset.train_labels.max()) + 1)
    return method_named(row.method)(task, **row.settings)


def _megabytes(result: Result) -> dict[str, float]:
    return {
        "megabytes_up": result.bytes_up / MEGABYTE,
        "megabytes_down": result.bytes_down / MEGABYTE,
        "megabytes": result.bytes_per_client / MEGABYTE,
    }
