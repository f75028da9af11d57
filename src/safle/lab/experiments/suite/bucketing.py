"""Three ways of bucketing, over the number of buckets."""

from __future__ import annotations

from safle.encoders.bucketing import make_bucketing
from safle.lab.experiments.plan import Experiment, Plan, Request
from safle.lab.experiments.scenario import POOLED


def group_size(strategy: str, buckets: int, feature_dim: int, *, columns: int, largest: int) -> int:
    """The largest group, up to ``largest`` digits, that stays within ``columns``; at least 1."""
    bucketing = make_bucketing(strategy, buckets)
    digits = feature_dim * bucketing.functions
    fitting = [
        size
        for size in range(1, min(largest, digits) + 1)
        if -(-digits // size) * bucketing.radix**size <= columns
    ]
    return max(fitting, default=1)


def requests(plan: Plan) -> list[Request]:
    """Strategies x B_n; counted in one piece, since who holds what changes nothing."""
    wanted = plan.settings["bucketing"]
    found = []
    for strategy in wanted["strategies"]:
        for buckets in wanted["buckets"]:
            size = group_size(
                strategy,
                buckets,
                plan.data[0].train.shape[1],
                columns=wanted["columns"],
                largest=wanted["largest_group"],
            )
            found += plan.method(
                "safle",
                POOLED,
                labels={"strategy": strategy, "buckets": buckets, "group_size": size},
                settings={"bucketing": strategy, "buckets": buckets, "group_size": size},
                seeds=range(wanted["seeds"]),
                tune=False,
            )
    return found


EXPERIMENT = Experiment(
    "bucketing",
    "Three ways of bucketing",
    "Which bucketing is best, and with how many buckets?",
    requests,
)
