"""``safle features`` as users run it, and then the core's commands."""

from __future__ import annotations

import csv
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from safle.encoders import load_encoder
from safle.tables import open_table

pytestmark = pytest.mark.slow

CLASSES = ("cat", "dog, wet", "bird")
IMAGES = 240


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from safle.cli.main import run; run()", *map(str, arguments)]


def safle(*arguments: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, tiny_onnx: Callable[..., Path]) -> Path:
    """Class folders, the same as a .zip, and two ONNX files."""
    folder = tmp_path_factory.mktemp("images")
    numbers = np.random.default_rng(0)
    for at in range(IMAGES):
        path = folder / "photographs" / CLASSES[at % 3] / f"{at:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = numbers.integers(0, 256, (50, 60, 3)) // (1 + at % 3)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    with zipfile.ZipFile(folder / "photographs.zip", "w") as archive:
        for path in sorted((folder / "photographs").rglob("*.png")):
            archive.write(path, path.relative_to(folder / "photographs"))
    tiny_onnx(folder / "tiny.onnx")
    tiny_onnx(folder / "other.onnx", feature_dim=7)
    tiny_onnx(folder / "bare.onnx", declared=False)
    return folder


@pytest.fixture(scope="module")
def features(place: Path) -> Path:
    safle("features", place / "photographs", "--backbone", place / "tiny.onnx", "-o",
          place / "features.safetensors")  # fmt: skip
    return place / "features.safetensors"


@pytest.fixture(scope="module")
def encoder(place: Path, features: Path) -> Path:
    safle("encoder", "make", "--sample", features, "-o", place / "encoder.safetensors")
    return place / "encoder.safetensors"


def test_another_backbone_is_refused(place: Path, encoder: Path, tmp_path: Path) -> None:
    arguments = ("features", place / "photographs", "--backbone", place / "other.onnx")
    safle(*arguments, "-o", tmp_path / "f.safetensors")
    counted = safle("count", tmp_path / "f.safetensors", "--encoder", encoder, "-o",
                    tmp_path / "a.stats", "--trust-features", fails=True)  # fmt: skip
    early = safle(*arguments, "--encoder", encoder, "-o", tmp_path / "g.safetensors", fails=True)
    for done in (counted, early):
        assert done.stderr.count("onnx weights=") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


def test_the_core_says_what_to_do_with_images(place: Path, encoder: Path, tmp_path: Path) -> None:
    images = place / "photographs.zip"
    done = safle("count", images, "--encoder", encoder, "-o", tmp_path / "a.stats", fails=True)
    assert "images become features with 'safle features' (package safle-images)" in done.stderr


def test_the_default_backbone_is_shown() -> None:
    done = safle("backbones")
    assert "efficientnet_lite0 weights=5793" in done.stdout


def test_images_all_the_way(place: Path, tmp_path: Path) -> None:
    """A bare ONNX file is exported once, and features of it are counted, judged and predicted."""
    photographs = tmp_path / "photographs"
    for name in CLASSES:
        (photographs / name).mkdir(parents=True)
        for path in sorted((place / "photographs" / name).iterdir())[:8]:
            (photographs / name / path.name).write_bytes(path.read_bytes())
    mine = ("--backbone", tmp_path / "mine.onnx")
    safle("backbones", "export", place / "bare.onnx", "--resize", 36, "--crop", 32,
          "--interpolation", "bilinear", "--mean", 120, 110, 100, "--deviation", 60, 50, 40,
          "-o", tmp_path / "mine.onnx")  # fmt: skip
    features, encoder, model = (tmp_path / f"{name}.safetensors" for name in "fem")
    safle("features", photographs, *mine, "-o", features)
    safle("encoder", "make", "--sample", features, "--kind", "linear", "-o", encoder)
    safle("count", features, "--encoder", encoder, "-o", tmp_path / "a.stats")
    safle("solve", tmp_path / "a.stats", "--encoder", encoder, "-o", model)
    broken = sorted((photographs / "bird").iterdir())[0]
    broken.write_bytes(b"nothing")
    allowed = ("--max-unreadable", 0.1)
    for like in (encoder, model):
        safle("features", photographs, *mine, "--encoder", like, *allowed, "-o", features)
        assert len(open_table(features)) == 23
    assert "23" in safle("evaluate", model, features).stdout
    safle("predict", model, features, "-o", tmp_path / "p.csv")
    header, *lines = (tmp_path / "p.csv").read_text().splitlines()
    assert header == "sample,class"
    left = [p for p in sorted(photographs.rglob("*.png")) if p != broken]
    named = [next(csv.reader([line]))[0] for line in lines]
    assert named == [str(path.relative_to(photographs)) for path in left]


def test_moments_make_an_encoder_for_the_default_backbone(tmp_path: Path) -> None:
    moments, encoder = tmp_path / "m.safetensors", tmp_path / "e.safetensors"
    safle("backbones", "moments", "-o", moments)
    safle("encoder", "make", "--moments", moments, "--kind", "linear", "-o", encoder)
    assert load_encoder(encoder).source.startswith("efficientnet_lite0 weights=")
