"""Accuracy over the ridge, and the automatic choice."""

from __future__ import annotations

from safle.lab.baselines.safle import METHOD
from safle.lab.experiments.plan import Experiment, Plan, Request
from safle.lab.experiments.scenario import POOLED


def requests(plan: Plan) -> list[Request]:
    """Columns x seeds; the ridges lie around the automatic choice."""
    wanted = plan.settings["ridge"]
    return [
        Request(
            {"columns_of": columns},
            {"scenario": POOLED, "clients": 1, "seed": seed, "octaves": wanted["octaves"]},
            METHOD.settings({**wanted["encoder"], "columns": columns}),
            kind="ridge",
        )
        for columns in wanted["columns"]
        for seed in range(wanted["seeds"])
    ]


EXPERIMENT = Experiment(
    "ridge",
    "The ridge, and its automatic choice",
    "How much does the ridge decide, and does the choice from the counts alone find it?",
    requests,
)
