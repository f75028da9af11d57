"""Preprocessing: decoded pixels -> a network's input, as in its training.

The shorter side (of a ``squash``, both) is resized to ``resize`` pixels, the ``crop`` x ``crop``
middle is taken, and every value x of channel c becomes ``(x - mean_c) / deviation_c`` with x in
0..255. That is torchvision's Resize, CenterCrop and Normalize on Pillow images.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle.errors import BackboneError

INTERPOLATIONS = ("bilinear", "bicubic")
LARGEST_SIDE = 4096
LONGEST = 8
"""The longer side over the shorter; the ends beyond it are cut off first: no crop shows them."""
Triple = tuple[float, float, float]
_TRIPLES = ("mean", "deviation")
HALVES = 127.5, 127.5, 127.5
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How images become a network's input.

    Attributes
    ----------
    resize : pixels of the shorter side, at least ``crop``
    crop : pixels of both sides of the input
    interpolation : "bilinear" or "bicubic", smoothed when shrinking, as Pillow does
    mean, deviation : red, green, blue, of values 0..255
    squash : whether both sides become ``resize`` pixels long
    """

    resize: int
    crop: int
    interpolation: str
    mean: Triple
    deviation: Triple
    squash: bool = False

    def __post_init__(self) -> None:
        sizes = self.resize, self.crop
        if any(type(size) is not int for size in sizes) or not (
            1 <= self.crop <= self.resize <= LARGEST_SIDE
        ):
            raise BackboneError(
                f"preprocessing resizes to {self.resize!r} and crops to {self.crop!r}; expected "
                f"integers with 1 <= crop <= resize <= {LARGEST_SIDE}"
            )
        if self.interpolation not in INTERPOLATIONS:
            raise BackboneError(
                f"interpolation {self.interpolation!r}; expected {' or '.join(INTERPOLATIONS)}"
            )
        if type(self.squash) is not bool:
            raise BackboneError(f"squash is {self.squash!r}; expected true or false")
        triples: dict[str, tuple[float, ...]] = {"mean": self.mean, "deviation": self.deviation}
        for name, values in triples.items():
            if len(values) != 3 or not all(map(math.isfinite, values)):
                raise BackboneError(f"{name} {values}; expected three numbers, for values 0 to 255")
        if min(self.deviation) <= 0:
            raise BackboneError(f"deviations {self.deviation}; expected positive numbers")
        # Many papers list 0.485, 0.456, ...: with values 0 to 255, inputs would reach a thousand.
        if max(map(abs, self.mean)) < 1 and max(self.deviation) < 1:
            mean, deviation = (_listed(times_255(v)) for v in (self.mean, self.deviation))
            raise BackboneError(
                f"mean {_listed(self.mean)} and deviation {_listed(self.deviation)} are of values "
                f"0 to 1; expected those of values 0 to 255: mean {mean}, deviation {deviation}"
            )

    def __str__(self) -> str:
        squash = " squash" if self.squash else ""
        return (
            f"resize={self.resize}{squash} {self.interpolation} crop={self.crop} "
            f"mean={_listed(self.mean)} deviation={_listed(self.deviation)}"
        )

    def to_json(self) -> str:
        """The JSON that an ONNX file declares under ``safle.preprocessing``."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Self:
        """The inverse of `to_json`."""
        try:
            content: dict[str, Any] = json.loads(text)
            triples = {name: tuple(map(float, content[name])) for name in _TRIPLES}
            return cls(**content | triples)
        except (ValueError, TypeError, KeyError) as error:
            raise BackboneError(
                f"{where}: its declared preprocessing is not valid ({error}); expected JSON with "
                "resize, crop, interpolation, mean and deviation"
            ) from None

    def fit(self, pixels: Pixels) -> Pixels:
        """Resized and cropped pixels, uint8, (crop, crop, 3), of pixels (height, width, 3)."""
        from PIL import Image

        pixels = pixels if self.squash else _without_ends(pixels)
        sides = pixels.shape[:2]
        shorter = min(sides)
        tall, wide = (self.resize if self.squash else int(self.resize * s / shorter) for s in sides)
        top, left = (round((side - self.crop) / 2) for side in (tall, wide))
        by = Image.Resampling[self.interpolation.upper()]
        image = Image.fromarray(pixels).resize((wide, tall), by)
        return np.asarray(image.crop((left, top, left + self.crop, top + self.crop)))

    def normalise(self, pixels: Pixels, out: NDArray[np.float32]) -> None:
        """Write the values of pixels (crop, crop, 3) to ``out``, float32, (3, crop, crop)."""
        for channel, values in enumerate(self._values):
            np.take(values, pixels[:, :, channel], out=out[channel])

    @cached_property
    def _values(self) -> NDArray[np.float32]:
        # A table of 256 values per channel: the same numbers on every machine.
        levels = np.arange(256.0)
        mean, deviation = np.array(self.mean), np.array(self.deviation)
        return ((levels - mean[:, None]) / deviation[:, None]).astype(np.float32)


def _without_ends(pixels: Pixels) -> Pixels:
    # A line of one by a million pixels would be resized to gigabytes.
    most = LONGEST * min(pixels.shape[:2])
    middle = tuple(
        slice(max(0, (side - most) // 2), max(0, (side - most) // 2) + most)
        for side in pixels.shape[:2]
    )
    return np.ascontiguousarray(pixels[middle])


PAPER = asdict(
    Preprocessing(resize=224, crop=224, interpolation="bilinear", mean=HALVES, deviation=HALVES)
)
"""What AFL and DeepAFL do, on square images: `Resize(224)`, mean and deviation 0.5."""


def times_255(values: Sequence[float]) -> Triple:
    """The values for pixels of 0 to 255, given those for pixels of 0 to 1."""
    red, green, blue = (255 * float(value) for value in values)
    return red, green, blue


def _listed(values: Triple) -> str:
    return ",".join(f"{value:.10g}" for value in values)
