"""From images to the report in one command."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")
pytest.importorskip("onnxruntime")

COLOURS = {"blue": (20, 30, 220), "green": (30, 200, 40), "red": (220, 20, 30)}
SETTINGS = """
[federation]
clients = 3
seeds = 1
[table1]
methods = ["afl", "safle-smallest"]
scenarios = ["iid"]
"""


def pictures(count, seed):
    """Noisy pictures of one colour each: (class, PNG bytes)."""
    generator = np.random.default_rng(seed)
    for name, colour in COLOURS.items():
        for _ in range(count):
            pixels = np.clip(generator.normal(colour, 60, (32, 32, 3)), 0, 255).astype(np.uint8)
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "png")
            yield name, buffer.getvalue()


def as_named(folder: Path, label: str = "label") -> str:
    """A Hugging Face data set, saved to disk; its test split is called ``validation``.

    With labels in another column there is one more that could be them, as CIFAR-100 has.
    """
    datasets = pytest.importorskip("datasets")
    kinds = {"image": datasets.Image(), label: datasets.ClassLabel(names=list(COLOURS))}
    if label != "label":
        kinds["coarse_label"] = datasets.ClassLabel(names=["colour"])
    parts = {}
    for split, count in (("train", 20), ("validation", 8)):
        labels, content = zip(*pictures(count, count), strict=True)
        rows = {"image": [{"bytes": data, "path": None} for data in content], label: labels}
        if label != "label":
            rows["coarse_label"] = [0] * len(labels)
        parts[split] = datasets.Dataset.from_dict(rows, datasets.Features(kinds))
    datasets.DatasetDict(parts).save_to_disk(folder / "colours")
    return f"hf:{folder / 'colours'}"


def as_folders(folder: Path) -> str:
    for split, count in (("train", 20), ("validation", 8)):
        for number, (name, data) in enumerate(pictures(count, count)):
            place = folder / "colours" / split / name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.png").write_bytes(data)
    return str(folder / "colours")


@pytest.fixture
def asked(tmp_path, tiny_onnx):
    (tmp_path / "my.toml").write_text(SETTINGS)
    backbone = tiny_onnx(tmp_path / "tiny.onnx")
    split = ("--test-split", "validation", "--backbone", backbone)
    return ("experiment", "table1", *split, "--settings", tmp_path / "my.toml")


def test_labels_may_stand_in_another_column(tmp_path, asked, safle):
    images = ("--dataset", as_named(tmp_path, "fine_label"), "--out", tmp_path / "out")

    assert "--label-column" in safle(*asked, *images, code=1)
    safle(*asked, *images, "--label-column", "fine_label")

    result = json.loads((tmp_path / "out" / "table1.json").read_text())
    assert result["data"][0]["classes"] == list(COLOURS)


def test_other_images_of_the_same_name_are_not_taken_for_these(tmp_path, asked, safle):
    images = ("--dataset", as_folders(tmp_path), "--out", tmp_path / "out")
    safle(*asked, *images)
    (tmp_path / "colours" / "train" / "red" / "59.png").unlink()

    assert "results of other data" in " ".join(safle(*asked, *images, code=1).split())
    (tmp_path / "out" / "table1.json").unlink()
    safle(*asked, *images)

    result = json.loads((tmp_path / "out" / "table1.json").read_text())
    assert result["data"][0]["train_samples"] == 59


@pytest.mark.parametrize("make", [as_named, as_folders])
def test_one_command_goes_from_images_to_the_report(tmp_path, tiny_onnx, safle, make):
    (tmp_path / "my.toml").write_text(SETTINGS)
    backbone = tiny_onnx(tmp_path / "tiny.onnx")
    images = ("--dataset", make(tmp_path), "--test-split", "validation", "--backbone", backbone)
    asked = ("experiment", "table1", *images, "--settings", tmp_path / "my.toml")

    printed = safle(*asked, "--out", tmp_path / "out")

    assert "report.html" in printed
    result = json.loads((tmp_path / "out" / "table1.json").read_text())
    assert result["data"][0]["name"] == "colours-tiny"
    assert result["data"][0]["classes"] == list(COLOURS)
    assert (result["data"][0]["train_samples"], result["data"][0]["test_samples"]) == (60, 24)
    assert {line["method"] for line in result["summary"]} == {"AFL", "safle's smallest (ours)"}
    assert all(line["accuracy"] > 0.8 for line in result["summary"])
    assert "colours-tiny" in (tmp_path / "out" / "report.html").read_text()
    features = sorted((tmp_path / "out" / "features").glob("*.safetensors"))
    before = [path.stat().st_mtime_ns for path in features]
    safle(*asked, "--out", tmp_path / "out")
    assert len(before) == 2
    assert [path.stat().st_mtime_ns for path in features] == before


def test_images_and_features_are_one_too_many(tmp_path, safle):
    (tmp_path / "f.npz").touch()

    printed = safle(
        *("experiment", "table1", "--features", tmp_path / "f.npz", "--dataset", "hf:x"), code=1
    )

    assert "images or their features" in printed
