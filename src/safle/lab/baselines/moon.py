"""MOON: a client's representation is drawn to the server's, away from its own last one.

Li, He, Song: "Model-Contrastive Federated Learning", CVPR 2021.

Adds ``-mu log(e^{s_server} / (e^{s_server} + e^{s_last}))``, s the cosine of representations
over a temperature. Without a hidden layer the representation is the frozen feature, the
term is constant and MOON is FedAvg: it needs ``hidden`` to mean something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle.lab.baselines.base import Settings
from safle.lab.baselines.heads import forward, require_torch
from safle.lab.baselines.training import RATES, Algorithm, Round, Step, iterative

if TYPE_CHECKING:
    import torch


class Moon(Algorithm):
    """FedAvg with a contrastive term."""

    def __init__(self, settings: Settings, client_count: int) -> None:
        super().__init__(settings, client_count)
        self.last: list[torch.Tensor] = []
        """Every client's head after its last round; at first the server's."""

    def term(self, step: Step) -> torch.Tensor | None:
        """The contrastive loss, mean over a client's batch, (active,)."""
        mu, temperature = float(self.settings["mu"]), float(self.settings["temperature"])
        # Before its first round a client's last head is the server's: both pull alike.
        if not mu or not self.last:
            return None
        torch = require_torch()
        with torch.no_grad():
            server = forward(step.server, step.inputs)[1]
            last = forward([own[step.clients] for own in self.last], step.inputs)[1]
        cosine = torch.nn.functional.cosine_similarity
        nearer = cosine(step.representation, server, dim=1) / temperature
        away = cosine(step.representation, last, dim=1) / temperature
        return mu * (torch.nn.functional.softplus(away - nearer) * step.share).sum(dim=1)

    def after_round(self, done: Round) -> None:
        """Remember every chosen client's head."""
        if len(done.local) <= 2:
            return
        if not self.last:
            self.last = [parameter.repeat(self.client_count, 1, 1) for parameter in done.server]
        for last, local in zip(self.last, done.local, strict=True):
            last[done.clients] = local


METHOD = iterative(
    "moon",
    "MOON",
    Moon,
    defaults={"mu": 1.0, "temperature": 0.5, "hidden": 128},
    grid={"rate": RATES, "mu": (0.1, 1.0, 5.0)},
)
