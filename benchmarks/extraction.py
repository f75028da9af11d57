"""Extraction: ResNet-18's features of photographs, against a loop in torch.

Both decode, resize and normalise in the same way. torch's tensors are channels last, its batch is
the best of several, and processor time counts, which other work on the machine disturbs little.
Weights are random: they change no time.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import Settings
from safle_images.backbones import Backbone, Preprocessing, export_backbone, extract, load_backbone
from safle_images.readers import Record, decode

BATCHES = (8, 16, 32, 64)
TOLERANCE = 1e-3
PREPROCESSING = Preprocessing(
    resize=256,
    crop=224,
    interpolation="bilinear",
    mean=(123.675, 116.28, 103.53),
    deviation=(58.395, 57.12, 57.375),
)


def run(settings: Settings) -> Outcome:
    """One run of each."""
    records = photographs(8 if settings.quick else 192)
    network = resnet18()
    with tempfile.TemporaryDirectory() as folder:
        export_backbone(network, PREPROCESSING, Path(folder, "network.onnx"))
        backbone = load_backbone(f"{folder}/network.onnx", device="cpu")
    network = network.to(memory_format=_torch().channels_last)
    ours, expected = processor_time(lambda: with_safle(records, backbone))
    seconds: dict[str, float] = {}
    for batch in BATCHES[: 1 if settings.quick else None]:
        seconds[str(batch)], found = processor_time(lambda b=batch: with_torch(records, network, b))
        if np.abs(found - expected).max() > TOLERANCE * np.abs(expected).max():
            raise Disagreement("extraction: the features differ")
    speedup = min(seconds.values()) / ours
    return Outcome(
        figures={"speedup": speedup, "seconds": ours, "torch_seconds": seconds},
        data="photographs",
        compared=f"features within {TOLERANCE:g} of the largest",
        bars=[Bar("extraction: processor time of torch's loop over ours", speedup, 1.26)],
    )


def photographs(count: int) -> list[Record]:
    """JPEG files of 500 x 375 pixels, cut from two photographs."""
    numbers = np.random.default_rng(0)
    records = []
    for at, image in zip(range(count), _forever(load_sample_images().images), strict=False):
        top, left = numbers.integers(0, 50), numbers.integers(0, 130)
        file = io.BytesIO()
        Image.fromarray(image[top : top + 375, left : left + 500]).save(file, "JPEG", quality=90)
        records.append(Record(f"{at}.jpg", None, file.getvalue()))
    return records


def _forever(images: Sequence[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    while True:
        yield from images


def processor_time(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of all threads together, and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def with_safle(records: Sequence[Record], backbone: Backbone) -> NDArray[np.float32]:
    """Features by `extract`."""
    return np.concatenate([part.features for part in extract(records, backbone)])


def with_torch(records: Sequence[Record], network: Any, size: int) -> NDArray[np.float32]:
    """Features by the loop that a tutorial would write."""
    torch = _torch()
    parts = []
    with torch.inference_mode():
        for begin in range(0, len(records), size):
            group = records[begin : begin + size]
            inputs = np.empty((len(group), 3, 224, 224), np.float32)
            for record, row in zip(group, inputs, strict=True):
                PREPROCESSING.normalise(PREPROCESSING.fit(decode(record.data)), row)
            images = torch.from_numpy(inputs).to(memory_format=torch.channels_last)
            parts.append(network(images).numpy())
    return np.concatenate(parts)


def resnet18() -> Any:
    """He et al., CVPR 2016, without its classifier, as torchvision has it."""
    nn = _torch().nn
    _torch().manual_seed(0)

    def convolution(inputs: int, outputs: int, side: int, stride: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            first = convolution(inputs, outputs, 3, stride)
            self.inner = nn.Sequential(first, nn.ReLU(), convolution(outputs, outputs, 3, 1))
            changes = stride > 1 or inputs != outputs
            self.skip = convolution(inputs, outputs, 1, stride) if changes else nn.Identity()

        def forward(self, images: Any) -> Any:
            return nn.functional.relu(self.inner(images) + self.skip(images))

    layers = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        stride = 1 if outputs == 64 else 2
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


def _torch() -> Any:
    import torch

    return torch
