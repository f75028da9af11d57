"""Accuracy against measured megabytes per client."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request


def requests(plan: Plan) -> list[Request]:
    """Methods as in `rounds`, and SAFLe with encoders of several sizes."""
    wanted = plan.settings["communication"]
    found = [
        request
        for method in wanted["methods"]
        for request in plan.method(method, wanted["scenario"])
    ]
    for buckets, size in wanted["encoders"]:
        found += plan.method(
            "safle",
            wanted["scenario"],
            labels={"encoder": f"L={buckets}, G={size}"},
            settings={"buckets": buckets, "group_size": size},
            seeds=range(1),
            tune=False,
        )
    return found


EXPERIMENT = Experiment(
    "communication",
    "Accuracy against communication",
    "What does an accuracy cost a client, in megabytes really sent and received?",
    requests,
)
