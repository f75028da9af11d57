"""Images in place of tables: five sites' folders to a joint model, by the commands of the core."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from safle import Statistics, read

SITES = ("a", "b", "c", "d", "e")
CLASSES = ("bird", "cat", "dog")
IMAGES = 60

Safle = Callable[..., str]


def write_images(folder: Path, seed: int) -> Path:
    """Class folders of photographs: noise, which is darker from class to class."""
    numbers = np.random.default_rng(seed)
    for at in range(IMAGES):
        path = folder / CLASSES[at % 3] / f"{at:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = numbers.integers(0, 256, (50, 60, 3)) // (1 + at % 3)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


@pytest.fixture
def place(tmp_path: Path, tiny_onnx: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    tiny_onnx(tmp_path / "tiny.onnx")
    write_images(tmp_path / "public", 0)
    return tmp_path


@pytest.fixture
def encoder(place: Path, safle: Safle) -> Path:
    safle("encoder", "make", "--backbone", "tiny.onnx", "--public", "public", "-o", "e.safetensors")
    return place / "e.safetensors"


def count(safle: Safle, site: object, *more: object, code: int = 0) -> str:
    made = ("--encoder", "e.safetensors", "--backbone", "tiny.onnx")
    return safle("count", site, *made, "-o", f"{Path(str(site)).stem}.stats", *more, code=code)


def test_ten_commands_from_five_folders_to_predictions(place: Path, encoder: Path, safle: Safle):
    for seed, site in enumerate((*SITES, "new"), start=1):
        write_images(place / site, seed)
    # One command has made the encoder.
    for site in SITES:
        count(safle, site)
    safle("sum", *(f"{site}.stats" for site in SITES), "-o", "total.stats")
    safle("solve", "total.stats", "--encoder", encoder, "-o", "model.safetensors")
    safle("predict", "model.safetensors", "new", "--backbone", "tiny.onnx", "-o", "p.csv")
    with (place / "p.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == IMAGES
    assert all(row["sample"].startswith(f"{row['class']}/") for row in rows)
    judged = safle("evaluate", "model.safetensors", "new", "--backbone", "tiny.onnx")
    assert "60 of 60" in judged


def test_counts_of_images_are_those_of_their_features_file(
    place: Path, encoder: Path, safle: Safle
):
    safle("features", "public", "--backbone", "tiny.onnx", "-o", "f.safetensors")
    safle("count", "f.safetensors", "--encoder", encoder, "-o", "f.stats")
    count(safle, "public")
    assert (place / "f.stats").read_bytes() == (place / "public.stats").read_bytes()
    assert "60" in safle("rehearse", "public", "--encoder", encoder, "--backbone", "tiny.onnx")


def test_an_archive_and_a_list_count_as_their_folder(place: Path, encoder: Path, safle: Safle):
    shutil.make_archive("zipped", "zip", place / "public")
    paths = sorted((place / "public").rglob("*.png"))
    rows = [f"{path.relative_to(place)},{path.parent.name}\n" for path in paths]
    (place / "listed.csv").write_text("path,label\n" + "".join(rows))
    first = count(safle, "public")
    for other in ("zipped.zip", "listed.csv"):
        assert f"{IMAGES} images, 3 classes" in count(safle, other)
        data = (place / f"{Path(other).stem}.stats").read_bytes()
        assert data == (place / "public.stats").read_bytes(), first


def test_features_are_made_once_and_anew_for_changed_images(
    place: Path, encoder: Path, safle: Safle
):
    kept = place / "cache" / "features"
    assert len([*kept.glob("*.safetensors")]) == 1
    count(safle, "public")
    assert len([*kept.glob("*.safetensors")]) == 1
    assert kept.stat().st_mode & 0o077 == 0
    before = read(place / "public.stats", Statistics)
    # The same name and the same size in bytes, but another image.
    image = place / "public" / "cat" / "001.png"
    brighter = np.asarray(Image.open(image))[::-1]
    Image.fromarray(brighter).save(image)
    os.utime(image, ns=(1, 1))
    count(safle, "public", "--force")
    assert len([*kept.glob("*.safetensors")]) == 2
    assert read(place / "public.stats", Statistics) != before


def test_a_wrong_backbone_is_named_by_its_file(
    place: Path, encoder: Path, safle: Safle, tiny_onnx: Callable[..., Path]
):
    tiny_onnx(place / "other.onnx", feature_dim=7)
    said = safle("count", "public", "--encoder", encoder, "--backbone", "other.onnx",
                 "-o", "x.stats", code=1)  # fmt: skip
    assert "other.onnx" in said
    said = safle("count", "public", "--encoder", encoder, "-o", "x.stats", code=1)
    assert "--backbone FILE.onnx" in said
    assert not (place / "x.stats").exists()


def test_an_encoder_of_no_backbone_does_not_take_images(place: Path, safle: Safle):
    safle("encoder", "make", "--range", 0, 1, "--features", 6, "-o", "plain.safetensors")
    said = safle("count", "public", "--encoder", "plain.safetensors", "-o", "x.stats", code=1)
    assert "does not name a backbone" in said


def test_a_table_does_not_take_a_backbone(place: Path, encoder: Path, safle: Safle):
    (place / "table.csv").write_text("id,age,label\n17,4,a\n18,5,b\n")
    assert "needs no --backbone" in count(safle, "table.csv", code=1)


def test_columns_of_images_cannot_be_ignored(place: Path, encoder: Path, safle: Safle):
    write_images(place / "new", 9)
    kept = [*place.glob("cache/features/*.safetensors")]
    assert "--ignore" in count(safle, "new", "--ignore", "age", code=1)
    assert [*place.glob("cache/features/*.safetensors")] == kept, "refused before features are made"


def test_a_grid_is_proposed_from_the_features(place: Path, safle: Safle):
    safle("features", "public", "--backbone", "tiny.onnx", "-o", "f.safetensors")
    said = safle("inspect", "f.safetensors")
    _, _, grid = said.partition("safle histogram ")
    ends = grid.splitlines()[0].split()
    safle("histogram", "public", "--backbone", "tiny.onnx", *ends, "-o", "h.hist")
    assert "values outside  0.00%" in safle("inspect", "h.hist")


def test_images_that_cannot_be_read_are_named_by_every_count(
    place: Path, encoder: Path, safle: Safle
):
    """Also by a count of features that an earlier command has made, and by one of shards."""
    shutil.copytree("public", "more")
    for at in range(100):
        shutil.copy("public/cat/001.png", f"more/cat/copy-{at}.png")
    (place / "more/cat/001.png").write_bytes(b"torn")
    for found in (count(safle, "more"), count(safle, "more", "--force")):
        assert "1 of 160 images cannot be read" in " ".join(found.split())
    said = " ".join(count(safle, "more", "public", "--force").split())
    assert said.count("1 of 160 images cannot be read") == 1


def save_data_set(folder: Path, paths: list[Path]) -> None:
    datasets = pytest.importorskip("datasets")
    cells = [{"bytes": path.read_bytes(), "path": None} for path in paths]
    columns = {"image": cells, "label": [path.parent.name for path in paths]}
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    made = datasets.Dataset.from_dict(columns, kinds)
    datasets.DatasetDict({"train": made}).save_to_disk(folder)


@pytest.mark.parametrize("name", ["set", "hf:set:train"])
def test_features_are_made_anew_for_a_changed_data_set_of_the_same_size(
    place: Path, encoder: Path, safle: Safle, name: str
):
    paths = sorted((place / "public").rglob("*.png"))
    bitmaps = [path.with_suffix(".bmp") for path in paths]
    found = []
    for step in (1, -1):
        for path, bitmap in zip(paths, bitmaps, strict=True):
            Image.fromarray(np.asarray(Image.open(path))[::step]).save(bitmap)
        save_data_set(place / "set", bitmaps)
        size = sum(file.stat().st_size for file in (place / "set").rglob("*.arrow"))
        count(safle, name, "--force")
        (counted,) = [*place.glob("set.stats"), *place.glob("hf*.stats")]
        found.append((size, counted.read_bytes()))
    (before, first), (after, second) = found
    assert before == after
    assert first != second


def test_data_sets_by_name_are_counted_as_one(place: Path, encoder: Path, safle: Safle):
    """``hf:NAME`` is not a place, which would begin beside this one."""
    paths = sorted((place / "public").rglob("*.png"))
    save_data_set(place / "first", paths[::2])
    save_data_set(place / "second", paths[1::2])
    count(safle, "public")
    count(safle, "hf:first:train", "hf:second:train")
    (found,) = place.glob("hf:first*.stats")
    assert found.read_bytes() == (place / "public.stats").read_bytes()


def test_finished_shards_are_kept_only_for_the_same_images_and_labels(place: Path, safle: Safle):
    made = ("--backbone", "tiny.onnx", "--into", "parts")
    shutil.copytree("public", "numbered")
    for number, name in enumerate(CLASSES):
        (place / "numbered" / name).rename(place / "numbered" / str(number))
    (place / "numbered/0/000.png").write_bytes(b"torn")
    features = ("features", "public", "numbered", *made, "--max-unreadable", "0.1")
    for _ in range(2):
        said = " ".join(safle(*features).split())
        assert "samples 119" in said
        assert "unreadable 1 " in said
    shutil.copy("public/cat/001.png", "public/cat/new.png")
    assert "of other images" in " ".join(safle(*features, code=1).split())
    (place / "public/cat/new.png").rename(place / "other.png")
    safle(*features)
    (place / "public/cat/001.png").rename(place / "public/dog/cat.png")
    assert "of other labels" in " ".join(safle(*features, code=1).split())


def test_a_place_that_is_missing_is_not_called_a_table(place: Path, encoder: Path, safle: Safle):
    (place / "note.txt").write_text("not images")
    for name in ("nowhere", "note.txt"):
        said = count(safle, name, code=1)
        assert name in said
        assert "--backbone" not in said
    assert "nowhere" in count(safle, "public", "nowhere", code=1)
