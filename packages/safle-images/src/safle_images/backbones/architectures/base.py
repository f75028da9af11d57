"""What every architecture is: features first, a linear classifier behind them."""

from typing import Any

import torch
from torch import nn


class Classifier(nn.Module):
    """An ImageNet classifier whose features can be taken before its last layer."""

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Features, (batch, feature_dim), of normalised images, (batch, 3, height, width)."""
        raise NotImplementedError

    def score(self, features: torch.Tensor) -> torch.Tensor:
        """ImageNet scores, (batch, 1000), of features."""
        raise NotImplementedError

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of images."""
        return self.score(self.embed(images))


class Embedding(nn.Module):
    """The features of a classifier as a network of their own: what is exported."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of images."""
        return self.classifier.embed(images)


def convolution(inputs: int, outputs: int, size: int, **settings: Any) -> nn.Conv2d:
    """A convolution without bias, as all that batch normalisation follows are."""
    return nn.Conv2d(inputs, outputs, size, bias=False, **settings)
