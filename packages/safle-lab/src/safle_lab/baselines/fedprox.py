"""FedProx: a quadratic term pulls clients to the server's head.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: "Federated Optimization in Heterogeneous
Networks", MLSys 2020. Adds ``mu/2 ||w - w_server||^2``.
"""

from __future__ import annotations

from safle_lab.baselines.fedavg import Rounds, iterative
from safle_lab.baselines.heads import torch
from safle_lab.baselines.training import Algorithm, Integers, Pull


class Settings(Rounds, frozen=True):
    """The settings of FedProx."""

    mu: float = 0.01


def proximal_pull(
    clients: Integers, server: list[torch.Tensor], settings: Settings, _memory: None
) -> Pull | None:
    """``mu/2 ||w - w_server||^2``."""
    if not settings.mu:
        return None
    return Pull(torch.full((len(clients),), settings.mu), server)


ALGORITHM = Algorithm(pull=proximal_pull)
GRID = {"mu": (0.01, 0.1, 1.0)}
METHOD = iterative("fedprox", "FedProx", ALGORITHM, Settings(), GRID, tuned_like="fedavg")
