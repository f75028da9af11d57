"""FedDyn: a term in every client's loss makes up for how far the client has drifted.

Acar, Zhao, Matas, Mattina, Whatmough, Saligrama: "Federated Learning Based on Dynamic
Regularization", ICLR 2021.

Client k minimises ``L_k(w) - <h_k, w> + alpha/2 ||w - w_server||^2`` and then sets ``h_k -=
alpha (w_k - w_server)``; the server keeps the mean of all h and takes ``mean(w_k) - h/alpha``.
Means are weighted by sample counts. With alpha = 0 the method is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass

from safle_lab.baselines.fedavg import Rounds, iterative
from safle_lab.baselines.heads import torch
from safle_lab.baselines.training import FEW_RATES, Algorithm, Integers, Pull, Round, mean_head


class Settings(Rounds, frozen=True):
    """The settings of FedDyn."""

    alpha: float = 0.01


@dataclass(frozen=True)
class Drift:
    """h_k / alpha, (client_count, ...) for every parameter, and the server's mean of them."""

    own: list[torch.Tensor]
    mean: list[torch.Tensor]


def dynamic_pull(
    clients: Integers, server: list[torch.Tensor], settings: Settings, drift: Drift | None
) -> Pull | None:
    """A pull to ``w_server + h_k/alpha``.

    It is ``-<h_k, w> + alpha/2 ||w - w_server||^2`` up to a constant.
    """
    if not settings.alpha:
        return None
    # Before the first round nobody has drifted.
    if drift is not None:
        server = [head + shift[clients] for head, shift in zip(server, drift.own, strict=True)]
    return Pull(torch.full((len(clients),), settings.alpha), server)


def remember_drift(done: Round, _settings: Settings, drift: Drift | None) -> Drift:
    """The drift after a round."""
    if drift is None:
        zeros = [torch.zeros_like(parameter) for parameter in done.server]
        drift = Drift([zero.repeat(done.client_count, 1, 1) for zero in zeros], zeros)
    # Only chosen clients have moved: the mean over all clients moves by their share.
    weights = len(done.clients) / done.client_count * done.weights[:, None, None]
    chosen = torch.as_tensor(done.clients)
    moved = [local - server for local, server in zip(done.local, done.server, strict=True)]
    return Drift(
        [shift.index_add(0, chosen, -step) for shift, step in zip(drift.own, moved, strict=True)],
        [
            mean - (weights * step).sum(dim=0, keepdim=True)
            for mean, step in zip(drift.mean, moved, strict=True)
        ],
    )


def corrected_average(done: Round, settings: Settings, drift: Drift) -> list[torch.Tensor]:
    """``mean(w_k) - h/alpha``."""
    means = mean_head(done)
    if not settings.alpha:
        return means
    return [mean - drifted for mean, drifted in zip(means, drift.mean, strict=True)]


ALGORITHM = Algorithm(pull=dynamic_pull, remember=remember_drift, aggregate=corrected_average)
GRID = {"alpha": (0.01, 0.03, 0.1), "rate": FEW_RATES}
"""The alphas are those of the paper and of FedNTD's protocol."""
METHOD = iterative("feddyn", "FedDyn", ALGORITHM, Settings(), GRID, tuned_like="fedavg")
