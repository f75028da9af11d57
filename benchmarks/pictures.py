"""Images to run on: CIFAR-10's, as JPEG files in a .zip, where it is there, else generated."""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.settings import REPOSITORY

VARIABLE = "SAFLE_BENCH_IMAGES"
SHARED = REPOSITORY.parent / "shared" / "data" / "cifar10_images_6k.zip"
SIDE, CLASSES = 32, 10


@dataclass(frozen=True)
class Pictures:
    """A .zip of ``<split>/<class>/<number>.jpg``; ``source`` is "cifar10" or "generated"."""

    path: Path
    source: str


def find(folder: Path, *, train: int = 0, test: int = 0, real: bool = True) -> Pictures:
    """The real images, or as many generated ones of that size, written into ``folder``."""
    path = Path(os.environ.get(VARIABLE) or SHARED)
    if real and path.exists():
        return Pictures(path, "cifar10")
    made = folder / "generated.zip"
    generator = np.random.default_rng(0)
    colours = generator.integers(0, 256, (CLASSES, 2, 2, 3))
    with zipfile.ZipFile(made, "w") as archive:
        for split, count in (("train", train), ("test", test)):
            for at in range(count):
                kind = at % CLASSES
                name = f"generated/{split}/class{kind}/{at:05}.jpg"
                archive.writestr(name, _jpeg(colours[kind], generator))
    return Pictures(made, "generated")


def _jpeg(colours: np.ndarray, generator: np.random.Generator) -> bytes:
    """A class's four colours, blurred, and noise."""
    corners = Image.fromarray(colours.astype(np.uint8))
    smooth = np.asarray(corners.resize((SIDE, SIDE), Image.Resampling.BICUBIC)).astype(float)
    noisy = smooth + generator.normal(0.0, 40.0, smooth.shape)
    buffer = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG")
    return buffer.getvalue()
