"""What ``timm.data`` says about images, and does with them, by the same formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

PUBLISHED = {
    "input_size": (3, 64, 64),
    "interpolation": "bicubic",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "crop_pct": 0.875,
    "crop_mode": "center",
}
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def resolve_model_data_config(model: Any) -> dict[str, Any]:
    config = dict(model.pretrained_cfg)
    config["crop_pct"] = float(config["crop_pct"])
    return config


def create_transform(
    input_size: tuple[int, int, int],
    interpolation: str,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    crop_pct: float,
    crop_mode: str,
    is_training: bool,
) -> Callable[[Image.Image], torch.Tensor]:
    assert not is_training
    side = input_size[-1]
    longer = math.floor(side / crop_pct)

    def transform(image: Image.Image) -> torch.Tensor:
        scale = longer / min(image.size)
        size = [longer, longer]
        if crop_mode == "center":
            size = [int(edge * scale) for edge in image.size]
        left, top = (round((edge - side) / 2) for edge in size)
        resized = image.resize(tuple(size), FILTERS[interpolation])
        pixels = np.asarray(resized.crop((left, top, left + side, top + side)), np.float32) / 255
        return torch.from_numpy((pixels - np.array(mean)) / np.array(std)).permute(2, 0, 1).float()

    return transform
