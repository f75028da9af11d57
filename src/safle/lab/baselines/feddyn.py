"""FedDyn: every client's loss is corrected by what it has drifted so far.

Acar, Zhao, Matas, Mattina, Whatmough, Saligrama: "Federated Learning Based on Dynamic
Regularization", ICLR 2021.

Client k minimises ``L_k(w) - <h_k, w> + alpha/2 ||w - w_server||^2`` and then sets ``h_k -=
alpha (w_k - w_server)``; the server keeps the mean of all h and takes ``mean(w_k) - h/alpha``.
Means are weighted by sample counts, as in FedAvg, to which alpha = 0 leads back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle.lab.baselines.base import Settings
from safle.lab.baselines.fedprox import squared_distance
from safle.lab.baselines.heads import require_torch
from safle.lab.baselines.training import Algorithm, Round, Step, iterative, mean_head

if TYPE_CHECKING:
    import torch


class FedDyn(Algorithm):
    """FedAvg with a dynamic regulariser."""

    def __init__(self, settings: Settings, client_count: int) -> None:
        super().__init__(settings, client_count)
        self.alpha = float(settings["alpha"])
        self.drift: list[torch.Tensor] = []
        """h_k / alpha, (clients, ...), and at the server their mean."""
        self.mean_drift: list[torch.Tensor] = []

    def term(self, step: Step) -> torch.Tensor | None:
        """``-<h_k, w> + alpha/2 ||w - w_server||^2``, (active,)."""
        if not self.alpha:
            return None
        term = 0.5 * self.alpha * squared_distance(step)
        # Before the first round nobody has drifted.
        for own, drift in zip(step.parameters if self.drift else (), self.drift, strict=True):
            term = term - self.alpha * (own * drift[step.clients]).sum(dim=(1, 2))
        return term

    def aggregate(self, done: Round) -> list[torch.Tensor]:
        """``mean(w_k) - h/alpha``."""
        means = mean_head(done)
        if not self.alpha:
            return means
        self._remember(done)
        return [mean - drift for mean, drift in zip(means, self.mean_drift, strict=True)]

    def _remember(self, done: Round) -> None:
        torch = require_torch()
        if not self.drift:
            self.drift = [
                torch.zeros(self.client_count, *parameter.shape[1:]) for parameter in done.server
            ]
            self.mean_drift = [torch.zeros_like(parameter) for parameter in done.server]
        # The chosen clients stand for all: their share of the federation weighs the step.
        present = len(done.clients) / self.client_count
        weights = present * done.weights[:, None, None]
        for at, (server, local) in enumerate(zip(done.server, done.local, strict=True)):
            moved = local - server
            self.drift[at][done.clients] -= moved
            self.mean_drift[at] -= (weights * moved).sum(dim=0, keepdim=True)


METHOD = iterative(
    "feddyn",
    "FedDyn",
    FedDyn,
    defaults={"alpha": 0.01},
    grid={"alpha": (0.003, 0.01, 0.03, 0.1)},
    tuned_like="fedavg",
)
