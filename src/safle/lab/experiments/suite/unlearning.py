"""Clients that leave: their counts taken back, against counting again without them."""

from __future__ import annotations

from safle.lab.baselines.safle import METHOD
from safle.lab.experiments.plan import Experiment, Plan, Request


def requests(plan: Plan) -> list[Request]:
    """Columns x how many leave x seeds."""
    wanted = plan.settings["unlearning"]
    return [
        Request(
            {"columns_of": columns, "leaving": leaving},
            {
                "scenario": wanted["scenario"],
                "clients": plan.clients,
                "seed": seed,
                "leaving": leaving,
            },
            METHOD.settings({**wanted["encoder"], "columns": columns}),
            kind="unlearning",
        )
        for columns in wanted["columns"]
        for leaving in wanted["leaving"]
        for seed in range(wanted["seeds"])
    ]


EXPERIMENT = Experiment(
    "unlearning",
    "Unlearning",
    "Is the model without a client the one that never saw it, and what does that cost?",
    requests,
)
