"""Names that timm imports."""

from __future__ import annotations

from enum import Enum

import numpy as np
import torch
from PIL import Image


class InterpolationMode(Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


FILTERS = {mode: Image.Resampling[mode.name] for mode in InterpolationMode}


def to_tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image, np.float32) / 255).permute(2, 0, 1)
