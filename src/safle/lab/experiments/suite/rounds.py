"""Accuracy against communication rounds."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request


def requests(plan: Plan) -> list[Request]:
    """The methods of one scenario; every run records its accuracy on the way."""
    wanted = plan.settings["rounds"]
    return [
        request
        for method in wanted["methods"]
        for request in plan.method(method, wanted["scenario"])
    ]


EXPERIMENT = Experiment(
    "rounds",
    "Accuracy against rounds",
    "How many exchanges with clients does an accuracy take?",
    requests,
)
