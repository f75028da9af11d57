"""Wrong labels at the clients."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request


def requests(plan: Plan) -> list[Request]:
    """Kinds of noise x rates x methods; settings are chosen with the noise in place."""
    wanted = plan.settings["noise"]
    found = []
    for kind in wanted["kinds"]:
        for method in wanted["methods"]:
            for rate in wanted["rates"]:
                found += plan.method(
                    method,
                    wanted["scenario"],
                    labels={"noise": kind, "rate": rate},
                    # Clean labels are the same measurement for every kind, and for others.
                    noise={"kind": kind, "rate": rate} if rate else None,
                    settings=wanted["encoder"] if method.startswith("safle") else None,
                    seeds=range(wanted["seeds"]),
                )
    return found


EXPERIMENT = Experiment(
    "noise",
    "Wrong labels",
    "How much accuracy do wrong labels cost?",
    requests,
)
