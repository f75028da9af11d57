"""Heads that iterative methods train, for many clients at once.

Every parameter has the clients as its first axis, so one batched product serves all of
them. Samples are columns: products with few rows are several times as fast as with few
columns. Without a hidden layer the representation is the features themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import require
from safle_lab.baselines.base import Features

if TYPE_CHECKING:
    import torch

Parameters = Sequence["torch.Tensor"]
"""Weights and biases, layer by layer: (clients, outputs, inputs) and (clients, outputs, 1)."""


def require_torch() -> Any:
    """The torch module, or an error that names the extra."""
    return require("torch", "safle-lab[torch]", "training iterative methods")


def initial(feature_dim: int, class_count: int, *, hidden: int, seed: int) -> list[torch.Tensor]:
    """One head's parameters, with a first axis of 1. A linear head starts at zero."""
    torch = require_torch()
    sizes = [feature_dim, *([hidden] if hidden else []), class_count]
    generator = np.random.default_rng(seed)
    parameters = []
    for inputs, outputs in pairwise(sizes):
        scale = np.sqrt(2.0 / inputs) if hidden else 0.0
        weights = (scale * generator.standard_normal((1, outputs, inputs))).astype(np.float32)
        parameters += [torch.from_numpy(weights), torch.zeros(1, outputs, 1)]
    return parameters


def forward(parameters: Parameters, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, (clients, class_count, samples), and the representation before them.

    Parameters
    ----------
    inputs : (clients, feature_dim, samples)
    """
    torch = require_torch()
    representation = inputs
    for weights, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        representation = torch.relu(torch.baddbmm(bias, weights, representation))
    return torch.baddbmm(parameters[-1], parameters[-2], representation), representation


def shared(parameters: Parameters, clients: int) -> list[torch.Tensor]:
    """The same head for so many clients, without copies."""
    return [parameter.expand(clients, -1, -1) for parameter in parameters]


def arrays(parameters: Parameters) -> dict[str, NDArray[Any]]:
    """Parameters by name, as they are sent."""
    return {
        f"{'bias' if at % 2 else 'weights'}.{at // 2}": parameter[0].numpy()
        for at, parameter in enumerate(parameters)
    }


@dataclass(frozen=True)
class HeadModel:
    """One head, or several whose probabilities are averaged.

    Attributes
    ----------
    parameters : of all heads
    shares : weight of every head's vote, (heads,)
    """

    parameters: Parameters
    shares: NDArray[np.float64] | None = None

    def decision_function(self, features: Features) -> NDArray[np.float32]:
        """Logarithms of the probabilities, (samples, class_count)."""
        torch = require_torch()
        inputs = torch.from_numpy(np.ascontiguousarray(features)).T[None]
        heads = len(self.parameters[0])
        with torch.no_grad():
            if self.shares is None:
                scores = torch.log_softmax(forward(self.parameters, inputs)[0][0], dim=0)
            else:
                scores = torch.zeros(self.parameters[-1].shape[1], len(features))
                for head in range(heads):
                    own = [parameter[head : head + 1] for parameter in self.parameters]
                    votes = torch.softmax(forward(own, inputs)[0][0], dim=0)
                    scores += float(self.shares[head]) * votes
                scores = scores.log()
        found: NDArray[np.float32] = scores.T.numpy()
        return found
