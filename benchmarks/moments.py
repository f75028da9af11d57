"""Makes the moments that are shipped: ``python -m benchmarks.moments ZIP NAME ...``.

Moments over 2,000 training images of CIFAR-10, from a .zip of class folders, and 1,020 crops of the
17 photographs that come with scikit-image and scikit-learn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import skimage
import sklearn.datasets
from PIL import Image

from safle.tables import write_moments
from safle_images.backbones import extract, load_backbone
from safle_images.backbones.moments import FOLDER
from safle_images.readers import Record, open_images

PHOTOGRAPHS = (
    *("astronaut.png", "brick.png", "camera.png", "chelsea.png", "coffee.png", "coins.png"),
    *("grass.png", "gravel.png", "hubble_deep_field.jpg", "ihc.png", "microaneurysms.png"),
    *("moon.png", "motorcycle_left.png", "retina.jpg", "rocket.jpg", "china.jpg", "flower.jpg"),
)
CROPS, SMALLEST, OF_CIFAR = 60, 80, 2000


def crops() -> Iterator[Record]:
    """Squares of random sizes at random places."""
    numbers = np.random.default_rng(0)
    folders = Path(skimage.__file__).parent / "data", Path(sklearn.datasets.__file__).parent
    for name in PHOTOGRAPHS:
        path = next(p for f in folders for p in (f / name, f / "images" / name) if p.is_file())
        pixels = np.asarray(Image.open(path).convert("RGB"))
        for at in range(CROPS):
            side = int(numbers.integers(SMALLEST, min(pixels.shape[:2]) + 1))
            top, left = (int(numbers.integers(0, size - side + 1)) for size in pixels.shape[:2])
            yield Record(f"{name}/{at}", None, pixels[top : top + side, left : left + side].copy())


def main() -> None:
    """Measure and write."""
    archive, *names = sys.argv[1:]
    images = open_images(archive, split="train")
    for name in names:
        backbone = load_backbone(name, device="cpu")
        every = len(images) / OF_CIFAR
        taken = {int(at * every) for at in range(OF_CIFAR)}
        some = (record for at, record in enumerate(images.records()) if at in taken)
        batches = extract(chain(some, crops()), backbone)
        features = np.concatenate([batch.features for batch in batches]).astype(np.float64)
        # Seven digits, so that another order of additions gives the same file.
        mean, deviation = (
            part.astype(np.float32) for part in (features.mean(axis=0), features.std(axis=0))
        )
        write_moments(FOLDER / f"{name}.safetensors", mean, deviation, source=backbone.source)
        print(name, len(features), mean[:3], deviation[:3])


if __name__ == "__main__":
    main()
