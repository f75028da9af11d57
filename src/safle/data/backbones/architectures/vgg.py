"""VGG-11: Simonyan and Zisserman, Very Deep Convolutional Networks, 2014; torchvision's."""

from __future__ import annotations

import torch
from torch import nn

from safle.data.backbones.architectures.base import Classifier

PLAN: tuple[int, ...] = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
"""Widths of the convolutions; 0 halves the image."""


class VGG11(Classifier):
    """4096 features: everything but the last of the three fully connected layers."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for width in PLAN:
            if width:
                layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = width
            else:
                layers.append(nn.MaxPool2d(2, stride=2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 1000),
        )

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        # torchvision pools to 7x7 here, which is what 224 pixels give already.
        return self.classifier[:-1](self.features(images).flatten(1))

    def score(self, features: torch.Tensor) -> torch.Tensor:
        return self.classifier[-1](features)
