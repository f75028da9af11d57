"""MobileNetV2: Sandler et al., Inverted Residuals and Linear Bottlenecks, 2018; torchvision's."""

from __future__ import annotations

import torch
from torch import nn

from safle.data.backbones.architectures.base import Classifier, convolution

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, width, blocks, stride of the first block."""


def _layer(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        convolution(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.shortcut = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            *([_layer(inputs, hidden, 1)] if expansion != 1 else []),
            _layer(hidden, hidden, 3, stride, groups=hidden),
            convolution(hidden, outputs, 1),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Image -> image."""
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(Classifier):
    """1280 features: the average over positions of the last convolution."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_layer(3, 32, 3, stride=2)]
        inputs = 32
        for expansion, width, blocks, stride in STAGES:
            for index in range(blocks):
                step = stride if index == 0 else 1
                layers.append(InvertedResidual(inputs, width, step, expansion))
                inputs = width
        self.features = nn.Sequential(*layers, _layer(inputs, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        return self.features(images).mean((2, 3))

    def score(self, features: torch.Tensor) -> torch.Tensor:
        return self.classifier(features)
