"""``safle features`` as users run it: on files, and killed; then the core's commands."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_support.shipped import COARSE, cifar100_python, write_tar
from safle import load_encoder, open_table

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


def test_the_device_is_said_and_remembered(place: Path, tmp_path: Path) -> None:
    output = tmp_path / "f.safetensors"
    made = safle("features", place / "photographs", "--backbone", place / "tiny.onnx", "-o", output)
    assert "runs on cpu\n" in made.stderr
    assert re.search(r"^ *device +cpu$", safle("inspect", output).stdout, re.MULTILINE)


def test_calls_that_cannot_be_full_are_said(
    place: Path, tiny_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    mixing = tiny_onnx(tmp_path / "mixing.onnx", mixed=True)
    output = tmp_path / "f.safetensors"
    made = safle("features", place / "photographs", "--backbone", mixing, "-o", output)
    assert "one image per call" in made.stderr


def test_labels_keep_their_names(features: Path) -> None:
    table = open_table(features)
    assert len(table) == IMAGES
    assert table.labels is not None
    assert sorted(set(table.labels.tolist())) == sorted(CLASSES)


def test_the_way_there_does_not_matter(place: Path, features: Path, tmp_path: Path) -> None:
    output = tmp_path / "features.safetensors"
    safle("features", place / "photographs.zip", "--backbone", place / "tiny.onnx",
          "--workers", 3, "--device", "cpu", "-o", output)  # fmt: skip
    assert output.read_bytes() == features.read_bytes()


def test_another_backbone_is_refused(place: Path, encoder: Path, tmp_path: Path) -> None:
    arguments = ("features", place / "photographs", "--backbone", place / "other.onnx")
    safle(*arguments, "-o", tmp_path / "f.safetensors")
    counted = safle("count", tmp_path / "f.safetensors", "--encoder", encoder, "-o",
                    tmp_path / "a.stats", "--trust-features", fails=True)  # fmt: skip
    early = safle(*arguments, "--encoder", encoder, "-o", tmp_path / "g.safetensors", fails=True)
    for done in (counted, early):
        assert done.stderr.count("onnx weights=") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


def test_images_need_the_file_of_a_backbone_of_ones_own(
    place: Path, encoder: Path, tmp_path: Path
) -> None:
    images = place / "photographs.zip"
    done = safle("count", images, "--encoder", encoder, "-o", tmp_path / "a.stats", fails=True)
    assert "--backbone FILE.onnx" in done.stderr


def test_unreadable_images_are_reported(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    (folder / "a").mkdir(parents=True)
    for at, path in enumerate(sorted((place / "photographs" / "cat").iterdir())[:10]):
        data = path.read_bytes()
        (folder / "a" / path.name).write_bytes(data[:200] if at == 4 else data)
    output = tmp_path / "f.safetensors"
    arguments = ("features", folder, "--backbone", place / "tiny.onnx", "-o", output,
                 "--layout", "folders")  # fmt: skip
    refused = safle(*arguments, fails=True)
    assert "--max-unreadable" in refused.stderr
    assert not output.exists()
    done = safle(*arguments, "--max-unreadable", 0.1)
    assert "unreadable  1 (listed in" in done.stdout
    assert len(open_table(output)) == 9
    (line,) = (tmp_path / "f.safetensors.unreadable.txt").read_text().splitlines()
    assert line.startswith("a/012.png\t")


def test_an_archive_of_its_authors(place: Path, tmp_path: Path) -> None:
    path = write_tar(tmp_path / "cifar-100-python.tar.gz", cifar100_python())
    output = tmp_path / "f.safetensors"
    done = safle("features", path, "--split", "test", "--label-column", "coarse", "--backbone",
                 place / "tiny.onnx", "-o", output)  # fmt: skip
    assert "CIFAR-100, coarse labels: 3 test images, 3 classes" in done.stderr
    table = open_table(output)
    assert table.labels is not None
    assert sorted(table.labels.tolist()) == sorted(COARSE)


SLOW = """
import time
from safle_images.backbones import preprocessing
fit = preprocessing.Preprocessing.fit
def slowly(self, pixels):
    time.sleep(0.01)
    return fit(self, pixels)
preprocessing.Preprocessing.fit = slowly
from safle_images.backbones.writing import Journal
def watched(function):
    def journaled(*arguments):
        function(*arguments)
        open({watched!r}, "a").write(".")
    return journaled
Journal.append = watched(Journal.append)
from safle.cli.main import run
run()
"""


def killed(arguments: list[object], watched: Path, size: int) -> None:
    """Run, slowed down, and kill -9 once the journal has been written to so many times."""
    script = SLOW.format(watched=str(watched))
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])
    deadline = time.monotonic() + 120
    while not (watched.exists() and watched.stat().st_size >= size):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_a_killed_run_goes_on_where_it_was(
    place: Path, tiny_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    # One image a call, so that eight are kept at once.
    backbone = tiny_onnx(place / "one.onnx", batch=1)
    arguments = ["features", place / "photographs.zip", "--backbone", backbone]
    safle(*arguments, "-o", place / "one.safetensors")
    output = tmp_path / "f.safetensors"
    arguments += ["-o", output]
    for entries in (3, 9):
        killed(arguments, tmp_path / "watched", entries)
        assert not output.exists()
    (tmp_path / "watched").unlink()
    done = safle(*arguments)
    assert "resuming: " in done.stderr
    assert output.read_bytes() == (place / "one.safetensors").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_the_default_backbone_is_shown() -> None:
    done = safle("backbones")
    assert "efficientnet_lite0 weights=5793" in done.stdout


def test_a_named_data_set(place: Path, features: Path, tmp_path: Path) -> None:
    """``hf:NAME:SPLIT``: the same images in another coat give the same features."""
    datasets = pytest.importorskip("datasets")
    paths = sorted((place / "photographs").rglob("*.png"))
    columns = {
        "image": [{"bytes": path.read_bytes(), "path": None} for path in paths],
        "label": [path.parent.name for path in paths],
    }
    kinds = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=sorted(CLASSES))}
    )
    made = datasets.Dataset.from_dict(columns, kinds)
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(tmp_path / "set")
    made.to_parquet(tmp_path / "set.parquet")
    for at, images in enumerate((f"hf:{tmp_path / 'set'}:train", tmp_path / "set.parquet")):
        output = tmp_path / f"{at}.safetensors"
        safle("features", images, "--backbone", place / "tiny.onnx", "-o", output)
        found, expected = open_table(output), open_table(features)
        assert (found.features[:] == expected.features[:]).all()
        assert found.labels.tolist() == expected.labels.tolist()


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
        safle(
            "features", photographs, *mine, "--encoder", like, *allowed, "--force", "-o", features
        )
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
    assert load_encoder(encoder).contract.source.startswith("efficientnet_lite0 weights=")
