"""More clients with fewer samples each."""

from __future__ import annotations

from safle.lab.experiments.plan import Experiment, Plan, Request


def requests(plan: Plan) -> list[Request]:
    """Methods x numbers of clients."""
    wanted = plan.settings["clients"]
    return [
        request
        for method in wanted["methods"]
        for clients in wanted["counts"]
        for request in plan.method(
            method,
            wanted["scenario"],
            labels={"clients": clients},
            clients=clients,
            settings=wanted["encoder"] if method.startswith("safle") else None,
            seeds=range(wanted["seeds"]),
        )
    ]


EXPERIMENT = Experiment(
    "clients",
    "More and more clients",
    "What happens when the same samples are spread over ever more clients?",
    requests,
)
