"""Stands in for timm, whose interface this has: it needs torchvision's compiled operators.

Whatever the name, the network is a convolution and a mean; what is behind an ``@`` in a name is
the data configuration in which it differs, as ``NAME@crop_mode=squash``.
"""

from __future__ import annotations

from typing import Any

import torch

from timm import data

__all__ = ["create_model", "data"]


class Network(torch.nn.Module):
    """Features of four quarters of an image, and a classifier unless there are no classes."""

    def __init__(self, num_classes: int, pretrained_cfg: dict[str, Any]) -> None:
        super().__init__()
        self.pretrained_cfg = pretrained_cfg
        self.convolution = torch.nn.Conv2d(3, 4, 8, 8)
        self.pool = torch.nn.AdaptiveAvgPool2d(2)
        self.dropout = torch.nn.Dropout(0.5)
        self.fc = torch.nn.Linear(16, num_classes) if num_classes else torch.nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pooled = self.pool(self.convolution(images).relu()).flatten(1)
        return self.fc(self.dropout(pooled))


def create_model(model_name: str, pretrained: bool = False, num_classes: int = 1000) -> Network:
    """A network in training mode, as timm gives it."""
    name, _, differs = model_name.partition("@")
    if name == "no_such_network":
        raise RuntimeError(f"Unknown model ({model_name})")
    assert pretrained
    torch.manual_seed(0)
    told = dict(part.split("=") for part in differs.split(",") if part)
    return Network(num_classes, data.PUBLISHED | told)
