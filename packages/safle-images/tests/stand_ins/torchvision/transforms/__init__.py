"""What torchvision does with Pillow images, by its formulas."""

from __future__ import annotations

from typing import Any

import torch
from PIL import Image

from torchvision.transforms import functional
from torchvision.transforms.functional import FILTERS, InterpolationMode

__all__ = ["InterpolationMode", "functional"]


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    """The shorter side to ``size`` pixels, or both sides."""

    def __init__(self, size: Any, interpolation: InterpolationMode) -> None:
        self.size, self.interpolation = size, interpolation

    def __call__(self, image: Image.Image) -> Image.Image:
        size = self.size
        if isinstance(size, int):
            size = [int(size * side / min(image.size)) for side in image.size][::-1]
        return image.resize((size[1], size[0]), FILTERS[self.interpolation])


class CenterCrop:
    def __init__(self, size: Any) -> None:
        self.size = (size, size) if isinstance(size, int) else tuple(size)

    def __call__(self, image: Image.Image) -> Image.Image:
        height, width = self.size
        left, top = round((image.width - width) / 2), round((image.height - height) / 2)
        return image.crop((left, top, left + width, top + height))


class Normalize:
    def __init__(self, mean: torch.Tensor, std: torch.Tensor) -> None:
        self.mean, self.std = mean, std

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean[:, None, None]) / self.std[:, None, None]


def __getattr__(name: str) -> type:
    """Transforms of training, which timm names and nobody calls."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
