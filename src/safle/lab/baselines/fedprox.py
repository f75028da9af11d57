"""FedProx: clients are held to the server's head by a quadratic term.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: "Federated Optimization in Heterogeneous
Networks", MLSys 2020. Adds ``mu/2 ||w - w_server||^2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from safle.lab.baselines.heads import require_torch
from safle.lab.baselines.training import Algorithm, Rounds, Step, iterative

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Settings(Rounds):
    """What FedProx can be told."""

    mu: float = 0.01


def squared_distance(step: Step) -> torch.Tensor:
    """``||w - w_server||^2`` of every client, (active,)."""
    pairs = zip(step.parameters, step.server, strict=True)
    distances = [(own - server).square().sum(dim=(1, 2)) for own, server in pairs]
    return require_torch().stack(distances).sum(dim=0)


def proximal_term(step: Step, settings: Settings, _memory: None) -> torch.Tensor | None:
    """``mu/2 ||w - w_server||^2``, (active,)."""
    return 0.5 * settings.mu * squared_distance(step) if settings.mu else None


ALGORITHM = Algorithm(term=proximal_term)
METHOD = iterative("fedprox", "FedProx", ALGORITHM, Settings(), {"mu": (0.001, 0.01, 0.1)})
