"""FedProx: clients are held to the server's head by a quadratic term.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: "Federated Optimization in Heterogeneous
Networks", MLSys 2020. Adds ``mu/2 ||w - w_server||^2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle.lab.baselines.heads import require_torch
from safle.lab.baselines.training import Algorithm, Step, iterative

if TYPE_CHECKING:
    import torch


def squared_distance(step: Step) -> torch.Tensor:
    """``||w - w_server||^2`` of every client, (active,)."""
    pairs = zip(step.parameters, step.server, strict=True)
    distances = [(own - server).square().sum(dim=(1, 2)) for own, server in pairs]
    return require_torch().stack(distances).sum(dim=0)


class FedProx(Algorithm):
    """FedAvg with a proximal term."""

    def term(self, step: Step) -> torch.Tensor | None:
        """``mu/2 ||w - w_server||^2``, (active,)."""
        mu = float(self.settings["mu"])
        return 0.5 * mu * squared_distance(step) if mu else None


METHOD = iterative(
    "fedprox",
    "FedProx",
    FedProx,
    defaults={"mu": 0.01},
    grid={"mu": (0.001, 0.01, 0.1)},
    tuned_like="fedavg",
)
