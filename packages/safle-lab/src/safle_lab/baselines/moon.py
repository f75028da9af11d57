"""MOON: a client's representation is drawn to the server's, away from its own last one.

Li, He, Song: "Model-Contrastive Federated Learning", CVPR 2021.

Adds ``-mu log(e^{s_server} / (e^{s_server} + e^{s_last}))``, s the cosine of representations
over a temperature. Without a hidden layer the representation is the frozen feature, the
term is constant and MOON is FedAvg: it needs ``hidden`` to mean something.
"""

from __future__ import annotations

from safle_lab.baselines.fedavg import Rounds, iterative
from safle_lab.baselines.heads import forward, torch
from safle_lab.baselines.training import FEW_RATES, Algorithm, Round, Step, cross_entropies


class Settings(Rounds, frozen=True):
    """The settings of MOON."""

    hidden: int = 128
    mu: float = 1.0
    temperature: float = 0.5


def contrastive_losses(
    step: Step, settings: Settings, last: list[torch.Tensor] | None
) -> torch.Tensor:
    """Cross-entropies and the contrastive term, (active, batch)."""
    losses = cross_entropies(step)
    # Before its first round a client's last head is the server's: both pull alike.
    if not settings.mu or last is None:
        return losses
    with torch.no_grad():
        server_representation = forward(step.server, step.inputs)[1]
        last_representation = forward([p[step.clients] for p in last], step.inputs)[1]
    cosine = torch.nn.functional.cosine_similarity
    to_server = cosine(step.representation, server_representation, dim=1) / settings.temperature
    to_last = cosine(step.representation, last_representation, dim=1) / settings.temperature
    return losses + settings.mu * torch.nn.functional.softplus(to_last - to_server)


def remember_heads(
    done: Round, settings: Settings, last: list[torch.Tensor] | None
) -> list[torch.Tensor] | None:
    """Every client's head after its last round; at first the server's."""
    if not settings.hidden:
        return None
    if last is None:
        last = [parameter.repeat(done.client_count, 1, 1) for parameter in done.server]
    chosen = torch.as_tensor(done.clients)
    pairs = zip(last, done.local, strict=True)
    return [before.index_copy(0, chosen, local) for before, local in pairs]


ALGORITHM = Algorithm(losses=contrastive_losses, remember=remember_heads)
METHOD = iterative("moon", "MOON", ALGORITHM, Settings(), {"rate": FEW_RATES})
