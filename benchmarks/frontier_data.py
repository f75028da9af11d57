"""What heads are tried on: CIFAR-10 and Tiny-ImageNet features, other photographs, digits.

Each is at hand or left out: a benchmark of accuracy on generated data would say nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks import data, pictures
from benchmarks.data import Dataset
from benchmarks.report import note
from benchmarks.settings import Settings
from safle import open_table
from safle.errors import SafleError
from safle_images.backbones import DEFAULT, load_backbone, write_features
from safle_images.readers import open_images

TINY, TINY_FILE = "tiny-imagenet", "tiny_imagenet_resnet18_u8.safetensors"
"""Beside the file of CIFAR-10's features; uint8, to be multiplied by a scale per feature."""
DIGITS_HELD_OUT = 500


def at_hand(settings: Settings) -> Iterator[Dataset]:
    """The data sets there are; generated ones only to see that everything runs."""
    if settings.quick:
        yield data.load(settings)
        return
    makers = {
        "cifar10": lambda: data.load(settings) if settings.features.exists() else None,
        TINY: lambda: _tiny(settings.features.with_name(TINY_FILE)),
        "photographs": _photographs,
        "digits": _digits,
    }
    for name, make in makers.items():
        found = make() if not settings.only or name in settings.only else None
        if found is not None:
            yield found


def _tiny(path: Path) -> Dataset | None:
    if not path.exists():
        note(f"frontier: no {path}; left out")
        return None
    with safe_open(path, framework="numpy") as file:
        scale = file.get_tensor("scale")
        parts: list[NDArray[Any]] = []
        for split in ("train", "test"):
            parts.append((file.get_tensor(f"{split}_features_u8") * scale).astype(np.float32))
            parts.append(file.get_tensor(f"{split}_labels").astype(np.int64))
    return Dataset(parts[0], parts[1], parts[2], parts[3], TINY)


def _digits() -> Dataset:
    pixels, labels = load_digits(return_X_y=True)
    split = train_test_split(
        pixels.astype(np.float32),
        labels,
        test_size=DIGITS_HELD_OUT,
        random_state=0,
        stratify=labels,
    )
    return Dataset(split[0], split[2], split[1], split[3], "digits")


def _photographs() -> Dataset | None:
    """6,000 images of CIFAR-10 through the default backbone; None where either is missing."""
    with tempfile.TemporaryDirectory() as scratch:
        found = pictures.find(Path(scratch))
        if found.source == "generated":
            note("frontier: no photographs at hand; left out")
            return None
        parts = []
        for split in ("train", "test"):
            note(f"frontier: features of {split} photographs ...")
            output = Path(scratch) / f"{split}.safetensors"
            try:
                write_features(open_images(found.path, split=split), load_backbone(DEFAULT), output)
            except SafleError as error:
                note(f"frontier: {error}; photographs left out")
                return None
            table = open_table(output)
            _, labels = np.unique(np.asarray(table.labels), return_inverse=True)
            parts += [np.asarray(table.features, np.float32), labels.astype(np.int64)]
    return Dataset(parts[0], parts[1], parts[2], parts[3], f"{DEFAULT} of 5,000 photographs")
