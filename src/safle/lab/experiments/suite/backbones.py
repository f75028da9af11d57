"""AFL and SAFLe on the features of several backbones."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request
from safle.lab.experiments.scenario import POOLED


def requests(plan: Plan) -> list[Request]:
    """Data sets x methods; all of them are the same for any partition."""
    return [
        request
        for number, data in enumerate(plan.data)
        for method in plan.settings["backbones"]["methods"]
        for request in plan.method(
            method,
            POOLED,
            labels={"features": data.name, "feature_dim": int(data.train.shape[1])},
            seeds=range(plan.settings["backbones"]["seeds"]),
            data=number,
            tune=False,
        )
    ]


EXPERIMENT = Experiment(
    "backbones",
    "Other backbones",
    "Does the order of the methods hold on other features?",
    requests,
)
