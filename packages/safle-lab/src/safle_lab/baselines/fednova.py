"""FedNova: the server divides a client's update by the number of its steps.

Wang, Liu, Liang, Joshi, Poor: "Tackling the Objective Inconsistency Problem in
Heterogeneous Federated Optimization", NeurIPS 2020.

``w_server + tau sum_k p_k (w_k - w_server) / tau_k`` with tau_k local steps and ``tau = sum_k
p_k tau_k``. With equal numbers of steps it is FedAvg; ``strength`` 0 is FedAvg as well, and
1 is the paper's method.
"""

from __future__ import annotations

from safle_lab.baselines.fedavg import Rounds, iterative
from safle_lab.baselines.heads import torch
from safle_lab.baselines.training import Algorithm, Round


class Settings(Rounds, frozen=True):
    """The settings of FedNova."""

    strength: float = 1.0


def normalised_average(done: Round, settings: Settings, _memory: None) -> list[torch.Tensor]:
    """The server's next head."""
    steps = torch.as_tensor(done.steps).float() ** settings.strength
    scaled = (done.weights * (done.weights @ steps) / steps)[:, None, None]
    return [
        server + (scaled * (local - server)).sum(dim=0, keepdim=True)
        for server, local in zip(done.server, done.local, strict=True)
    ]


ALGORITHM = Algorithm(aggregate=normalised_average)
METHOD = iterative("fednova", "FedNova", ALGORITHM, Settings(), {}, tuned_like="fedavg")
