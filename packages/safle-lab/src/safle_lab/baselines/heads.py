"""Heads that iterative methods train, for many clients at once.

Every parameter has the clients as its first axis, so one batched product serves all of
them. Samples are columns: products with few rows are several times as fast as with few
columns. Without a hidden layer the representation is the features themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import require_package
from safle.errors import InvalidInput
from safle_lab.baselines.base import Features, message

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """torch, imported when it is first used: methods are listed without it."""

        def __getattr__(self, name: str) -> Any:
            module = require_package("torch", "safle-lab[torch]", "training iterative methods")
            return getattr(module, name)

    torch = _Torch()

CPU = "cpu"
Parameters = Sequence["torch.Tensor"]
"""Weights and biases, layer by layer: (clients, outputs, inputs) and (clients, outputs, 1)."""


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Methods that use torch run on this device inside the block: "cpu", "gpu" or "gpu:N".

    What comes from NumPy is made by ``torch.as_tensor``, which puts it there.
    """
    if name == CPU:
        yield
        return
    known = re.fullmatch(r"gpu(?::(\d{1,3}))?", name)
    number = int(known[1] or 0) if known else 0
    cards = torch.cuda.device_count()
    if known is None or number >= cards:
        raise InvalidInput(
            f"device {name!r}, and torch finds {cards} graphics cards here; expected cpu, gpu or "
            "gpu:N, counted from 0: a torch for processors finds none"
        )
    with torch.device(f"cuda:{number}"):
        yield


def initial(feature_dim: int, class_count: int, *, hidden: int, seed: int) -> list[torch.Tensor]:
    """One head's parameters, with a first axis of 1. A linear head starts at zero."""
    sizes = [feature_dim, *([hidden] if hidden else []), class_count]
    generator = np.random.default_rng(seed)
    parameters = []
    for inputs, outputs in pairwise(sizes):
        scale = np.sqrt(2.0 / inputs) if hidden else 0.0
        weights = (scale * generator.standard_normal((1, outputs, inputs))).astype(np.float32)
        parameters += [torch.as_tensor(weights), torch.zeros(1, outputs, 1)]
    return parameters


def forward(parameters: Parameters, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, (clients, class_count, samples), and the representation before them.

    Parameters
    ----------
    inputs : (clients, feature_dim, samples)
    """
    representation = inputs
    for weights, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        representation = torch.relu(torch.baddbmm(bias, weights, representation))
    return torch.baddbmm(parameters[-1], parameters[-2], representation), representation


def head_of(parameters: Parameters, client: int) -> list[torch.Tensor]:
    """One client's head, with a first axis of 1."""
    return [parameter[client : client + 1] for parameter in parameters]


def head_message(head: Parameters) -> bytes:
    """One head as it would be sent."""
    names = (f"{kind}.{layer}" for layer in range(len(head) // 2) for kind in ("weights", "bias"))
    return message(
        {name: array[0].numpy(force=True) for name, array in zip(names, head, strict=True)}
    )


@dataclass(frozen=True)
class HeadModel:
    """One head, with a first axis of 1, as a model."""

    parameters: Parameters

    def decision_function(self, features: Features) -> NDArray[np.float32]:
        """Logarithms of the probabilities, (samples, class_count)."""
        inputs = torch.as_tensor(np.ascontiguousarray(features)).T[None]
        with torch.no_grad():
            logits, _ = forward(self.parameters, inputs)
            return torch.log_softmax(logits[0], dim=0).T.numpy(force=True)
