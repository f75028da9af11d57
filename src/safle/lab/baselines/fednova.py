"""FedNova: what a client contributes does not grow with the steps it took.

Wang, Liu, Liang, Joshi, Poor: "Tackling the Objective Inconsistency Problem in
Heterogeneous Federated Optimization", NeurIPS 2020.

``w_server + tau sum_k p_k (w_k - w_server) / tau_k`` with tau_k local steps and ``tau = sum_k
p_k tau_k``. With equal numbers of steps it is FedAvg; ``strength`` 0 is FedAvg as well, and
1 the paper's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle.lab.baselines.heads import require_torch
from safle.lab.baselines.training import Algorithm, Round, iterative

if TYPE_CHECKING:
    import torch


class FedNova(Algorithm):
    """FedAvg with normalised updates."""

    def aggregate(self, done: Round) -> list[torch.Tensor]:
        """The normalised average."""
        torch = require_torch()
        steps = torch.from_numpy(done.steps).float() ** float(self.settings["strength"])
        scaled = done.weights * (done.weights @ steps) / steps
        pairs = zip(done.server, done.local, strict=True)
        return [
            server + (scaled[:, None, None] * (local - server)).sum(dim=0, keepdim=True)
            for server, local in pairs
        ]


METHOD = iterative("fednova", "FedNova", FedNova, defaults={"strength": 1.0}, tuned_like="fedavg")
