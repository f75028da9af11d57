"""A fixed model size: many small tables, or few large ones."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request
from safle.lab.experiments.scenario import POOLED


def buckets_for(columns: int, group_size: int, feature_dim: int) -> int:
    """L such that E V = (d L / G) 2^G comes nearest to ``columns``."""
    return max(1, round(columns * group_size / (2**group_size * feature_dim)))


def requests(plan: Plan) -> list[Request]:
    """V = 2^G over G, at about the same E V."""
    wanted = plan.settings["sparsity"]
    found = []
    for size in wanted["group_sizes"]:
        buckets = buckets_for(wanted["columns"], size, plan.data[0].train.shape[1])
        found += plan.method(
            "safle",
            POOLED,
            labels={"table_rows": 2**size, "group_size": size, "buckets": buckets},
            settings={"buckets": buckets, "group_size": size},
            seeds=range(wanted["seeds"]),
            tune=False,
        )
    return found


EXPERIMENT = Experiment(
    "sparsity",
    "Many small tables or few large ones",
    "At a fixed number of columns, how large should a table be, and how full is the gram?",
    requests,
)
