"""FedNTD: the server's opinion on the classes a sample is not of is kept.

Lee, Jeong, Kim, Yun, Seo, Kim, Oh, Yun: "Preservation of the Global Knowledge by Not-True
Distillation in Federated Learning", NeurIPS 2022.

Adds ``beta KL(server || client)`` between the softmaxes, at a temperature, over the logits
without the true class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle.lab.baselines.heads import forward, require_torch
from safle.lab.baselines.training import Algorithm, Step, iterative

if TYPE_CHECKING:
    import torch


class FedNTD(Algorithm):
    """FedAvg with not-true distillation."""

    def term(self, step: Step) -> torch.Tensor | None:
        """``beta KL`` over the not-true classes, mean over a client's batch, (active,)."""
        beta, temperature = float(self.settings["beta"]), float(self.settings["temperature"])
        if not beta:
            return None
        torch = require_torch()
        with torch.no_grad():
            server, _ = forward(step.server, step.inputs)
        true = torch.nn.functional.one_hot(step.labels, step.logits.shape[1]).bool().mT
        # A large negative number, not -inf: 0 times inf would be NaN in the divergence.
        own = torch.log_softmax((step.logits / temperature).masked_fill(true, -1e9), dim=1)
        old = torch.log_softmax((server / temperature).masked_fill(true, -1e9), dim=1)
        divergence = (old.exp() * (old - own)).masked_fill(true, 0.0).sum(dim=1)
        return beta * temperature**2 * (divergence * step.share).sum(dim=1)


METHOD = iterative(
    "fedntd",
    "FedNTD",
    FedNTD,
    defaults={"beta": 1.0, "temperature": 1.0},
    grid={"beta": (0.1, 0.3, 1.0)},
    tuned_like="fedavg",
)
