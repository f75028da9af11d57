"""MOON: a client's representation is drawn to the server's, away from its own last one.

Li, He, Song: "Model-Contrastive Federated Learning", CVPR 2021.

Adds ``-mu log(e^{s_server} / (e^{s_server} + e^{s_last}))``, s the cosine of representations
over a temperature. Without a hidden layer the representation is the frozen feature, the
term is constant and MOON is FedAvg: it needs ``hidden`` to mean something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle_lab.baselines.heads import forward, require_torch
from safle_lab.baselines.training import RATES, Algorithm, Round, Rounds, Step, iterative

if TYPE_CHECKING:
    import torch

    Heads = list[torch.Tensor] | None
    """Every client's head after its last round; at first the server's."""


class Settings(Rounds, frozen=True):
    """The settings of MOON."""

    hidden: int = 128
    mu: float = 1.0
    temperature: float = 0.5


def contrastive_term(step: Step, settings: Settings, last: Heads) -> torch.Tensor | None:
    """The contrastive loss, mean over a client's batch, (active,)."""
    # Before its first round a client's last head is the server's: both pull alike.
    if not settings.mu or last is None:
        return None
    torch = require_torch()
    with torch.no_grad():
        server = forward(step.server, step.inputs)[1]
        before = forward([own[step.clients] for own in last], step.inputs)[1]
    cosine = torch.nn.functional.cosine_similarity
    nearer = cosine(step.representation, server, dim=1) / settings.temperature
    away = cosine(step.representation, before, dim=1) / settings.temperature
    return settings.mu * (torch.nn.functional.softplus(away - nearer) * step.share).sum(dim=1)


def remember_heads(done: Round, settings: Settings, last: Heads) -> Heads:
    """Every client's last head, with those of the chosen ones in place."""
    if not settings.hidden:
        return None
    if last is None:
        last = [parameter.repeat(done.client_count, 1, 1) for parameter in done.server]
    chosen = require_torch().from_numpy(done.clients)
    pairs = zip(last, done.local, strict=True)
    return [before.index_copy(0, chosen, local) for before, local in pairs]


ALGORITHM = Algorithm(term=contrastive_term, remember=remember_heads)
METHOD = iterative("moon", "MOON", ALGORITHM, Settings(), {"rate": RATES, "mu": (0.1, 1.0, 5.0)})
