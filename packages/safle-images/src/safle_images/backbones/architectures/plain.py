"""ResNet-18: He et al., Deep Residual Learning for Image Recognition, 2015; torchvision's.

VGG-11: Simonyan and Zisserman, Very Deep Convolutional Networks, 2014; torchvision's.
"""

import torch
from torch import nn

from safle_images.backbones.architectures.base import Classifier, convolution

WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride=stride, padding=1)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = convolution(outputs, outputs, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                convolution(inputs, outputs, 1, stride=stride), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual plus shortcut."""
        shortcut = x if self.downsample is None else self.downsample(x)
        residual = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(residual + shortcut)


class ResNet18(Classifier):
    """512 features: the average over positions of the last block."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = convolution(3, 64, 7, stride=2, padding=3)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        inputs = 64
        for index, width in enumerate(WIDTHS):
            blocks = [BasicBlock(inputs, width, 2 if index else 1), BasicBlock(width, width, 1)]
            self.add_module(f"layer{index + 1}", nn.Sequential(*blocks))
            inputs = width
        self.fc = nn.Linear(512, 1000)

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for index in range(len(WIDTHS)):
            x = self.get_submodule(f"layer{index + 1}")(x)
        return x.mean((2, 3))

    def score(self, features: torch.Tensor) -> torch.Tensor:
        return self.fc(features)


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
