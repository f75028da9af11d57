"""The paper's tables and figures, and ours: one experiment a file."""

from safle.lab.experiments.plan import Experiment
from safle.lab.experiments.suite import (
    backbones,
    bucketing,
    clients,
    communication,
    noise,
    ridge,
    rounds,
    sparsity,
    table1,
    unlearning,
)

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table1,
        bucketing,
        backbones,
        rounds,
        communication,
        clients,
        sparsity,
        noise,
        ridge,
        unlearning,
    )
}

__all__ = ["EXPERIMENTS"]
