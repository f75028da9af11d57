"""Preprocessing is torchvision's Resize, CenterCrop and Normalize, step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from safle.errors import BackboneError
from safle_images.backbones import Preprocessing
from safle_images.backbones.default import PREPROCESSING

SMALL = Preprocessing(
    resize=40, crop=32, interpolation="bicubic", mean=(1, 2, 3), deviation=(4, 5, 6)
)
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height + width).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("interpolation", sorted(FILTERS))
@pytest.mark.parametrize("shape", [(32, 32), (300, 451), (500, 333), (256, 256), (61, 400)])
def test_fit_is_resize_and_centre_crop(interpolation: str, shape: tuple[int, int]) -> None:
    preprocessing, pixels = replace(PREPROCESSING, interpolation=interpolation), noise(*shape)
    height, width = shape
    short = min(shape)
    size = (int(256 * width / short), int(256 * height / short))
    resized = Image.fromarray(pixels).resize(size, FILTERS[preprocessing.interpolation])
    left, top = (round((side - 224) / 2) for side in size)
    expected = np.asarray(resized)[top : top + 224, left : left + 224]
    np.testing.assert_array_equal(preprocessing.fit(pixels), expected)


def test_squashed_images_are_whole() -> None:
    """Nothing of a longer side is cut off, however long it is."""
    squashing = replace(SMALL, resize=32, squash=True)
    for shape in ((100, 300), (1, 50_000)):
        pixels = noise(*shape)
        expected = Image.fromarray(pixels).resize((32, 32), FILTERS["bicubic"])
        np.testing.assert_array_equal(squashing.fit(pixels), np.asarray(expected))


def test_the_middle_is_kept_and_nothing_else() -> None:
    pixels = np.zeros((100, 300, 3), np.uint8)
    pixels[:, 100:200] = 255
    assert (SMALL.fit(pixels) == 255).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 90_000), (90_000, 1), (3, 50_000)])
def test_extreme_shapes_need_little_memory(shape: tuple[int, int]) -> None:
    assert PREPROCESSING.fit(noise(*shape)).shape == (224, 224, 3)


def test_values_are_shifted_and_scaled_by_channel() -> None:
    pixels, out = noise(32, 32), np.empty((3, 32, 32), np.float32)
    SMALL.normalise(pixels, out)
    expected = (pixels.astype(float) - [1, 2, 3]) / [4, 5, 6]
    np.testing.assert_array_equal(out, expected.transpose(2, 0, 1).astype(np.float32))


def test_published_constants() -> None:
    out = np.empty((3, 1, 1), np.float32)
    PREPROCESSING.normalise(np.array([[[255, 127, 0]]], np.uint8), out)
    assert out.ravel().tolist() == [1.0, 0.0, -127 / 128]


def test_json_round_trip() -> None:
    assert Preprocessing.from_json(SMALL.to_json(), where="here") == SMALL


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"resize": 1}', SMALL.to_json().replace("40", "20"), "null"]
    + [
        SMALL.to_json().replace(old, new)
        for old, new in [("cubic", "c"), ("40", "1e9"), ("4", "0")]
    ]
    + [SMALL.to_json()[:-1] + ', "more": 1}', SMALL.to_json().replace("false", "1")],
)
def test_declarations_that_make_no_sense(text: str) -> None:
    with pytest.raises(BackboneError):
        Preprocessing.from_json(text, where="file.onnx")


def test_moments_of_values_0_to_1_are_questioned() -> None:
    with pytest.raises(BackboneError, match=r"expected .* mean 123.675,116.28,103.53, deviation "):
        replace(SMALL, mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225))
    assert replace(SMALL, mean=(0, 0, 0), deviation=(1, 1, 1)).crop == SMALL.crop


def test_preprocessing_text_tells_every_field_apart() -> None:
    texts = {str(SMALL)}
    changes = [{"resize": 41}, {"crop": 31}, {"interpolation": "bilinear"}]
    changes += [{"mean": (1, 2, 4)}, {"deviation": (4, 5, 6.5)}, {"squash": True}]
    for change in changes:
        texts.add(str(replace(SMALL, **change)))
    assert len(texts) == 7
