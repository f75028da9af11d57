"""FedNTD: clients keep the server's opinion on the classes that a sample does not belong to.

Lee, Jeong, Kim, Yun, Seo, Kim, Oh, Yun: "Preservation of the Global Knowledge by Not-True
Distillation in Federated Learning", NeurIPS 2022.

A client adds ``beta KL(server || client)`` to its loss, between the softmaxes at a temperature
over the logits without the true class.
"""

from __future__ import annotations

from safle_lab.baselines.fedavg import Rounds, iterative
from safle_lab.baselines.heads import forward, torch
from safle_lab.baselines.training import Algorithm, Step, cross_entropies


class Settings(Rounds, frozen=True):
    """The settings of FedNTD."""

    beta: float = 1.0
    temperature: float = 1.0


def distilled_losses(step: Step, settings: Settings, _memory: None) -> torch.Tensor:
    """Cross-entropies and ``beta KL`` over the not-true classes, (active, batch)."""
    losses = cross_entropies(step)
    if not settings.beta:
        return losses
    temperature = settings.temperature
    with torch.no_grad():
        server_logits, _ = forward(step.server, step.inputs)
    true = torch.nn.functional.one_hot(step.labels, step.logits.shape[1]).bool().mT
    # A large negative number, not -inf: 0 times inf would be NaN in the divergence.
    client_logs = torch.log_softmax((step.logits / temperature).masked_fill(true, -1e9), dim=1)
    server_logs = torch.log_softmax((server_logits / temperature).masked_fill(true, -1e9), dim=1)
    divergence = (server_logs.exp() * (server_logs - client_logs)).masked_fill(true, 0.0).sum(dim=1)
    return losses + settings.beta * temperature**2 * divergence


ALGORITHM = Algorithm(losses=distilled_losses)
GRID = {"beta": (0.1, 0.3, 1.0)}
METHOD = iterative("fedntd", "FedNTD", ALGORITHM, Settings(), GRID, tuned_like="fedavg")
