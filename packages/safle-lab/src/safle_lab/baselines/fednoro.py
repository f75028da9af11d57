"""FedNoRo: the server finds clients with wrong labels by their losses and weights them less.

Wu, Yu, Jiang, Cheng, Yan: "FedNoRo: Towards Noise-Robust Federated Learning by Addressing
Class Imbalance and Label Noise Heterogeneity", IJCAI 2023.

Stage one, warm-up: FedAvg with logits to which the logarithms of the client's own class
shares are added. Then every client sends its mean loss of each class under the server's
head; a mixture of two Gaussians over these vectors separates noisy clients from clean ones.
Stage two: noisy clients learn from the server's opinion, ``(1 - l) cross-entropy + l KL(server
|| client)``. Both terms adjust the client's logits; l rises to ``distillation`` until half of the
rounds have passed; the divergence leaves out classes that a client does not hold. A noisy head
counts less the further it is from the nearest clean one: ``n_k exp(-distance)``, with distances
divided by the largest. The adjustment, the rise of l and the classes left out follow the authors'
program (wnn2000/FedNoRo).

What differs from the paper: a linear head on frozen features is trained, so there is no
augmentation. The Gaussians have diagonal covariances, as there may be more classes than
clients. The losses (class_count numbers, once) are not counted in the bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture

from safle_lab.baselines.base import Task
from safle_lab.baselines.fedavg import Rounds, iterative
from safle_lab.baselines.heads import HeadModel, Parameters, forward, torch
from safle_lab.baselines.training import RATES, Algorithm, Round, Step, mean_head

MIXTURES = 9
"""How often the mixture is fitted, each time from another start; the most common answer counts."""
LOG_ABSENT = -1e9
"""Logarithm of the share of a class that a client does not hold; finite, as 0 times -inf is NaN."""


class Settings(Rounds, frozen=True):
    """The settings of FedNoRo.

    Attributes
    ----------
    warm_up : share of the rounds that are stage one
    distillation : final weight of the server's opinion at noisy clients
    ramp_up : share of the rounds after which the opinion has its final weight
    temperature : temperature of the server's opinion
    """

    warm_up: float = 0.1
    distillation: float = 0.8
    ramp_up: float = 0.5
    temperature: float = 0.8


@dataclass(frozen=True)
class Memory:
    """What the server knows about the clients.

    Attributes
    ----------
    priors : logarithms of every client's class shares, (clients, class_count)
    noisy : which clients are taken for noisy, (clients,); None in stage one
    """

    task: Task
    priors: torch.Tensor
    rounds: int = 0
    noisy: torch.Tensor | None = None


def class_sums(task: Task, values: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """The number of samples, or the sum of their ``values``: (clients, class_count)."""
    added = np.ones(len(task.labels)) if values is None else values
    sums = [
        np.bincount(task.labels[part], added[part], minlength=task.class_count)
        for part in task.holders
    ]
    return np.array(sums)


def log_priors(task: Task) -> torch.Tensor:
    """Logarithms of every holder's class shares, float32, (clients, class_count)."""
    counts = class_sums(task)
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.full_like(shares, LOG_ABSENT), where=shares > 0)
    return torch.as_tensor(logs.astype(np.float32))


def begin(task: Task, _settings: Settings) -> Memory:
    """The memory before the first round: no client is taken for noisy yet."""
    return Memory(task, log_priors(task))


def adjusted_losses(step: Step, priors: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits plus log-priors, (active, batch): Menon et al., ICLR 2021."""
    logits = step.logits + priors[step.clients][:, :, None]
    return torch.nn.functional.cross_entropy(logits, step.labels, reduction="none")


def distilled_losses(step: Step, settings: Settings, memory: Memory) -> torch.Tensor:
    """Adjusted losses; in stage two noisy clients also learn from the server, (active, batch)."""
    losses = adjusted_losses(step, memory.priors)
    if memory.noisy is None:
        return losses
    with torch.no_grad():
        opinion = torch.log_softmax(forward(step.server, step.inputs)[0] / settings.temperature, 1)
    priors = memory.priors[step.clients][:, :, None]
    client_logs = torch.log_softmax(step.logits + priors, dim=1)
    # A client cannot predict a class that its prior rules out: the divergence would never shrink.
    present = priors > LOG_ABSENT
    divergence = (opinion.exp() * (opinion - client_logs) * present).sum(dim=1)
    weight = opinion_weight(memory.rounds, settings) * memory.noisy[step.clients].float()[:, None]
    return (1 - weight) * losses + weight * divergence


def warm_up_rounds(settings: Settings) -> int:
    """How many rounds stage one has."""
    return max(1, round(settings.warm_up * settings.rounds))


def opinion_weight(rounds: int, settings: Settings) -> float:
    """Weight of the server's opinion: it rises from 0.7 % of ``distillation`` to all of it."""
    first = warm_up_rounds(settings)
    last = settings.ramp_up * settings.rounds
    share = min(1.0, (rounds - first) / max(1.0, last - first))
    return float(settings.distillation * np.exp(-5 * (1 - share) ** 2))


def losses_by_class(task: Task, head: Parameters) -> NDArray[np.float64]:
    """Every client's mean loss of each class, (clients, class_count); NaN for a class it lacks."""
    logs = HeadModel(head).decision_function(task.features)
    losses = -logs[np.arange(len(task.labels)), task.labels].astype(np.float64)
    counts = class_sums(task)
    return np.where(counts > 0, class_sums(task, losses) / np.maximum(counts, 1), np.nan)


def find_noisy(losses: NDArray[np.float64], seed: int) -> NDArray[np.bool_]:
    """Clients of the mixture's component with the larger losses, (clients,)."""
    seen = losses[:, ~np.isnan(losses).all(axis=0)]
    # A class that a client does not hold must not make it look noisy.
    filled = np.where(np.isnan(seen), np.nanmin(seen, axis=0), seen)
    least = filled.min(axis=0)
    scaled = (filled - least) / np.maximum(filled.max(axis=0) - least, 1e-12)
    shape: dict[str, Any] = {"covariance_type": "diag", "reg_covar": 1e-4}
    fits = (in_larger_component(scaled, seed + start, **shape) for start in range(MIXTURES))
    votes = Counter(tuple(fit.tolist()) for fit in fits)
    return np.array(votes.most_common(1)[0][0])


def in_larger_component(
    values: NDArray[np.float64], seed: int, **mixture_settings: Any
) -> NDArray[np.bool_]:
    """Which rows belong to the larger of two Gaussians, (rows,); none if all rows are equal."""
    if len(values) < 2 or not np.ptp(values, axis=0).any():
        return np.zeros(len(values), np.bool_)
    mixture = GaussianMixture(2, random_state=seed, **mixture_settings)
    components = mixture.fit_predict(values)
    in_larger: NDArray[np.bool_] = components == np.argmax(mixture.means_.sum(axis=1))
    return in_larger


def remember(done: Round, settings: Settings, memory: Memory) -> Memory:
    """Count the round; at the end of stage one, find the noisy clients."""
    memory = replace(memory, rounds=memory.rounds + 1)
    if memory.noisy is None and memory.rounds >= warm_up_rounds(settings):
        noisy = find_noisy(losses_by_class(memory.task, mean_head(done)), memory.task.seed)
        return replace(memory, noisy=torch.as_tensor(noisy))
    return memory


def distance_aware_mean(done: Round, _settings: Settings, memory: Memory) -> list[torch.Tensor]:
    """The heads' mean; a noisy head counts less the further it is from the nearest clean one."""
    if memory.noisy is None:
        return mean_head(done)
    noisy = memory.noisy[done.clients]
    if noisy.all() or not noisy.any():
        return mean_head(done)
    flat = torch.cat([local.flatten(1) for local in done.local], dim=1)
    distances = torch.cdist(flat, flat[~noisy]).min(dim=1).values
    distances = torch.where(noisy, distances / distances.max().clamp_min(1e-12), 0.0)
    weights = done.weights * torch.exp(-distances)
    return mean_head(replace(done, weights=weights / weights.sum()))


ALGORITHM = Algorithm(
    remember=remember, aggregate=distance_aware_mean, begin=begin, losses=distilled_losses
)
METHOD = iterative("fednoro", "FedNoRo", ALGORITHM, Settings(), {"rate": RATES})
