"""Shards of images on a Ray cluster: the bytes of one process, and a killed worker is repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support.ray_workers import killing_a_worker

pytestmark = pytest.mark.slow
SHARDS = 20
IMAGES = 6

Safle = Callable[..., str]


@pytest.fixture
def place(tmp_path: Path, tiny_onnx: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty shards: folders and archives; one image is in two of them."""
    pytest.importorskip("ray")
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    tiny_onnx(tmp_path / "tiny.onnx")
    numbers = np.random.default_rng(0)
    for shard in range(SHARDS):
        for at in range(IMAGES):
            path = Path("shards", f"{shard:02}", ("cat", "dog")[at % 2], f"{at}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = numbers.integers(0, 256, (40, 40, 3)) // (1 + at % 2)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    shutil.copy("shards/00/cat/0.png", "shards/01/cat/again.png")
    shutil.copytree("shards", "whole", copy_function=shutil.copy)
    for shard in range(0, SHARDS, 2):
        shutil.make_archive(f"shards/{shard:02}", "zip", f"shards/{shard:02}")
        shutil.rmtree(f"shards/{shard:02}")
    return tmp_path


def test_twenty_shards_on_ray_give_the_bytes_of_one_process(place: Path, safle: Safle):
    safle("encoder", "make", "--backbone", "tiny.onnx", "--public", "shards/01", "-o", "e.st")
    made = ("--encoder", "e.st", "--backbone", "tiny.onnx")
    shards = sorted((place / "shards").iterdir())
    assert len(shards) == SHARDS
    alone = safle("count", *shards, *made, "-o", "alone.stats")
    shutil.rmtree(place / "cache")
    with killing_a_worker() as killed:
        safle("count", *shards, *made, "--ray", "local", "-o", "ray.stats")
    assert killed
    assert (place / "ray.stats").read_bytes() == (place / "alone.stats").read_bytes()
    assert "repeat" not in alone, "one of 121 samples is fewer than a hundredth"
    # Each shard's own file, summed, has these bytes as well.
    (place / "parts").mkdir()
    for shard in shards:
        safle("count", shard, *made, "-o", f"parts/{shard.stem}.stats")
    safle("sum", "parts", "-o", "sum.stats")
    assert (place / "sum.stats").read_bytes() == (place / "alone.stats").read_bytes()


def test_a_shard_that_cannot_be_read_is_named_and_nothing_is_written(place: Path, safle: Safle):
    safle("encoder", "make", "--backbone", "tiny.onnx", "--public", "shards/01", "-o", "e.st")
    made = ("--encoder", "e.st", "--backbone", "tiny.onnx")
    shards = sorted((place / "shards").iterdir())
    shards[4].write_bytes(b"PK not a zip")
    said = safle("count", *shards, *made, "--ray", "local", "-o", "ray.stats", code=1)
    assert shards[4].name in said
    assert not (place / "ray.stats").exists()
    assert "twice" in safle("count", shards[1], shards[1], *made, "-o", "ray.stats", code=1)


def test_features_of_shards_on_ray_are_those_of_each_and_resume(place: Path, safle: Safle):
    shards = sorted((place / "shards").iterdir())[:6]
    made = ("--backbone", "tiny.onnx")
    safle("features", *shards, *made, "--ray", "local", "--into", "there")
    (place / "there/03.safetensors").unlink()
    before = (place / "there/00.safetensors").stat().st_mtime_ns
    said = safle("features", *shards, *made, "--into", "there")
    assert (place / "there/00.safetensors").stat().st_mtime_ns == before
    assert "37" in said, "six images each, and one more"
    for shard in shards:
        safle("features", shard, *made, "-o", f"{shard.stem}.safetensors")
        alone = (place / f"{shard.stem}.safetensors").read_bytes()
        assert (place / "there" / f"{shard.stem}.safetensors").read_bytes() == alone
    safle("features", *shards, *made, "-o", "one.safetensors", code=2)


def test_a_finished_shard_of_another_backbone_is_not_taken(
    place: Path, safle: Safle, tiny_onnx: Callable[..., Path]
):
    tiny_onnx(place / "other.onnx", feature_dim=7)
    safle("features", "shards/01", "--backbone", "tiny.onnx", "--into", "there")
    again = ("features", "shards/01", "--backbone", "other.onnx", "--into", "there")
    assert "another backbone" in safle(*again, code=1)
