"""Table 1: every method in every scenario."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request


def requests(plan: Plan) -> list[Request]:
    """Methods x scenarios x seeds, and who holds what in each scenario."""
    wanted = plan.settings["table1"]
    pictures = [
        Request(
            {"partition_of": scenario},
            {"scenario": scenario, "clients": plan.clients, "seed": 0},
            kind="partition",
        )
        for scenario in wanted["scenarios"]
    ]
    return pictures + [
        request
        for method in wanted["methods"]
        for scenario in wanted["only"].get(method, wanted["scenarios"])
        for request in plan.method(method, scenario)
    ]


EXPERIMENT = Experiment(
    "table1",
    "Accuracy of every method on non-IID clients",
    "Who is how accurate when clients hold few classes each, on the same features?",
    requests,
)
