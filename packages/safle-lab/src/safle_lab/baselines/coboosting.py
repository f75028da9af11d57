"""Co-Boosting: the server invents samples that are hard, and weights the clients' heads by them.

Dai, Zhang, Li, Liu, Yang, Han: "Enhancing One-Shot Federated Learning Through Data and
Ensemble Co-Boosting", ICLR 2024.

Clients train a head each and send it once. Then, turn by turn, a fresh generator invents
samples of random classes that are hard for the weighted ensemble and on which the server's
head disagrees with it, ``(1 - p) cross-entropy - adversarial KL(ensemble || server)``; the
weights of all heads take steps by the sign of the ensemble's gradient on all samples
invented so far; and the server's head is distilled from the ensemble.

What differs from the paper: heads are linear, on frozen features, and features are invented.
The ensemble's logits are those of one linear head, the weighted sum of all. A head of the same
shape that is distilled until it converges equals that sum for any samples, so the server uses the
sum: the paper's diversified samples and its distillation's temperature have no effect here.
What remains of Co-Boosting is one-shot averaging with weights from invented samples. The
generator has linear layers; its samples get the data's mean and deviation, feature by feature,
as the paper's images get those of the data set's colours. Steps are ``step / clients``: the paper's
0.01 is a tenth of an equal weight of ten clients.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from safle_lab.baselines.base import Count, Method, Result, Task
from safle_lab.baselines.heads import HeadModel, forward, head_message, head_of, torch
from safle_lab.baselines.training import LocalTraining, Trainer

TEMPERATURE = 3.0
"""Temperature of the disagreement between the heads, as in the paper's program."""


class Settings(LocalTraining, frozen=True):
    """The settings of Co-Boosting.

    Attributes
    ----------
    hidden : hidden units; none, as heads are linear
    turns : how often samples are invented and weights adjusted
    invented : number of samples invented in a turn
    inventing : steps of the generator in a turn
    noise : number of random inputs from which the generator makes a sample
    adversarial : weight of the disagreement
    step : step of the weights in the first turn, as a share of an equal weight
    decay : factor of the step from turn to turn
    """

    epochs: Count = 20
    hidden: Literal[0] = 0
    turns: Count = 200
    invented: Annotated[int, Meta(ge=2)] = 128
    inventing: Count = 30
    noise: Count = 256
    adversarial: float = 1.0
    step: float = 0.1
    decay: float = 0.99


class Inventor:
    """Invents features that are hard for an ensemble, with the data's mean and deviation."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.settings, self.class_count = settings, task.class_count
        self.random = torch.Generator(torch.get_default_device()).manual_seed(task.seed)
        self.mean = torch.as_tensor(task.features.mean(axis=0))
        self.deviation = torch.as_tensor(task.features.std(axis=0))
        # Invented features stay above the data's least: features behind a rectifier are positive.
        self.least = torch.as_tensor(task.features.min(axis=0))

    def layers(self) -> list[torch.Tensor]:
        """A fresh generator's two layers."""
        inner = 2 * self.settings.noise
        shapes = ((self.settings.noise, inner), (inner, len(self.mean)))
        return [
            (torch.randn(shape, generator=self.random) / shape[0] ** 0.5).requires_grad_()
            for shape in shapes
        ]

    def generate(self, layers: list[torch.Tensor], noise: torch.Tensor) -> torch.Tensor:
        """Features, (samples, feature_dim), with the data's mean and deviation."""
        first, second = layers
        hidden = torch.nn.functional.leaky_relu(_standardised(noise @ first), 0.2)
        return (self.mean + self.deviation * _standardised(hidden @ second)).maximum(self.least)

    def invent(
        self, ensemble: list[torch.Tensor], server: list[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The best of one generator's steps: features, and the classes they are meant to be of."""
        settings = self.settings
        classes = torch.randint(self.class_count, (settings.invented,), generator=self.random)
        noise = torch.randn(
            settings.invented, settings.noise, generator=self.random
        ).requires_grad_()
        layers = self.layers()
        optimiser = torch.optim.Adam([*layers, noise], lr=1e-3, betas=(0.5, 0.999))
        least, best = float("inf"), self.mean.expand(settings.invented, -1)
        for _ in range(settings.inventing):
            generated = self.generate(layers, noise)
            loss = hardness(generated, classes, ensemble, server, settings.adversarial)
            if float(loss.detach()) < least:
                least, best = float(loss.detach()), generated.detach()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return best, classes


def _standardised(values: torch.Tensor) -> torch.Tensor:
    centred = values - values.mean(dim=0)
    return centred / (centred.square().mean(dim=0) + 1e-5).sqrt()


def hardness(
    features: torch.Tensor,
    classes: torch.Tensor,
    ensemble: list[torch.Tensor],
    server: list[torch.Tensor],
    adversarial: float,
) -> torch.Tensor:
    """The generator's loss: small where the class is right but hard, and the heads disagree."""
    ensemble_logits = forward(ensemble, features.T[None])[0][0].T
    server_logits = forward(server, features.T[None])[0][0].T
    losses = torch.nn.functional.cross_entropy(ensemble_logits, classes, reduction="none")
    hard = (1 - torch.exp(-losses.detach())) * losses
    ensemble_logs = torch.log_softmax(ensemble_logits / TEMPERATURE, dim=1)
    server_logs = torch.log_softmax(server_logits / TEMPERATURE, dim=1)
    disagreement = (ensemble_logs.exp() * (ensemble_logs - server_logs)).sum(dim=1)
    return (hard - adversarial * disagreement).mean()


def merge(local: list[torch.Tensor], weights: torch.Tensor) -> list[torch.Tensor]:
    """The heads' weighted sum: the ensemble, and the head that is distilled from it."""
    return [(weights[:, None, None] * parameter).sum(dim=0, keepdim=True) for parameter in local]


def adjust(
    local: list[torch.Tensor],
    weights: torch.Tensor,
    features: torch.Tensor,
    classes: torch.Tensor,
    step: float,
) -> torch.Tensor:
    """Weights, 0 to 1, after a step against the sign of the ensemble's gradient."""
    variable = weights.detach().requires_grad_()
    logits = forward(merge(local, variable), features.T[None])[0][0].T
    (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, classes), variable)
    adjusted = (weights - step * gradient.sign()).clamp(0.0, 1.0)
    # If all weights became 0 there would be no ensemble; the paper's larger weights never do.
    return adjusted if bool(adjusted.any()) else weights


def run(task: Task, settings: Settings) -> Result:
    """One round of local training; everything else happens at the server."""
    local = Trainer(task, settings).train().local
    clients = len(local[0])
    weights = torch.full((clients,), 1 / clients)
    server = [torch.zeros_like(parameter[:1]) for parameter in local]
    inventor, pool = Inventor(task, settings), []
    for turn in range(settings.turns):
        pool.append(inventor.invent(merge(local, weights), server))
        step = settings.step / clients * settings.decay**turn
        for index in torch.randperm(len(pool), generator=inventor.random).tolist():
            features, classes = pool[index]
            weights = adjust(local, weights, features, classes, step)
        server = merge(local, weights)
        task.progress((turn + 1) / settings.turns)
    up = len(head_message(head_of(local, 0)))
    facts = {"heads_heard": int((weights > 0).sum())}
    down = head_message(server)
    return Result(HeadModel(server), down, bytes_up=up, bytes_down=len(down), facts=facts)


METHOD = Method(
    "co-boosting", "Co-Boosting", "one-shot", run, Settings(), tuned_like="one-shot-average"
)
