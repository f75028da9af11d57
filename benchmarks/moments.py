"""Makes the moments that are shipped: ``python -m benchmarks.moments ZIP``.

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
from safetensors.numpy import save_file

from safle_images.backbones import DEFAULT, extract, load_backbone
from safle_images.backbones.default import MOMENTS
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
    images, backbone = open_images(sys.argv[1], split="train"), load_backbone(DEFAULT, device="cpu")
    every = len(images) / OF_CIFAR
    taken = {int(at * every) for at in range(OF_CIFAR)}
    some = (record for at, record in enumerate(images.records()) if at in taken)
    batches = extract(chain(some, crops()), backbone)
    features = np.concatenate([batch.features for batch in batches]).astype(np.float64)
    # Seven digits, so that another order of additions gives the same file.
    mean = features.mean(axis=0).astype(np.float32)
    deviation = features.std(axis=0).astype(np.float32)
    moments = {"mean": mean.astype(np.float64), "deviation": deviation.astype(np.float64)}
    save_file(moments, MOMENTS, metadata={"source": backbone.source})
    print(len(features), mean[:3], deviation[:3])


if __name__ == "__main__":
    main()
