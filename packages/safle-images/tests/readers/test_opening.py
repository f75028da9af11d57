"""Sources of images: the same images give the same records, whatever they are kept in."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from image_support.archives import to_bytes, write_folder, write_parquet, write_zip
from safle.errors import ImageError
from safle_images.readers import decode, open_images

Image = pytest.importorskip("PIL.Image")

CLASSES = ["cat", "dog", "zèbre"]
SPLITS = ["test", "train"]
PER_CLASS = 3


@pytest.fixture(scope="module")
def pixels():
    """Pixels of each image by (split, class, number)."""
    random = np.random.default_rng(0)
    return {
        (split, name, at): random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        for split in SPLITS
        for name in CLASSES
        for at in range(PER_CLASS)
    }


@pytest.fixture(scope="module")
def files(pixels):
    """Encoded images by name, as in a folder."""
    return {
        f"{s}/{name}/{at}.png": to_bytes(Image.fromarray(image))
        for (s, name, at), image in pixels.items()
    }


def under(prefix, files):
    return {prefix + name: data for name, data in files.items()}


def folders(prefix):
    return lambda tmp_path, _, files: write_folder(tmp_path / "data", under(prefix, files))


def zipped(tmp_path, _, files):
    return write_zip(tmp_path / "data.zip", under("set/", files))


def windows_zip(tmp_path, pixels, files):
    return write_zip(tmp_path / "w.zip", {n.replace("/", "\\"): d for n, d in files.items()})


def listed(tmp_path, pixels, files):
    write_folder(tmp_path / "elsewhere", files)
    with (tmp_path / "list.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["split", "path", "label", "note"])
        for name in files:
            split, label, _ = name.split("/")
            writer.writerow([split, f"elsewhere/{name}", label, "a, b"])
    return tmp_path / "list.csv"


def saved(tmp_path, pixels, files):
    """A Hugging Face data set, saved to disk and named by its folder."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"picture": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES)}
    )
    parts = {}
    for split in SPLITS:
        names = [name for name in files if name.startswith(split)]
        rows = [{"bytes": files[name], "path": None} for name in names]
        columns = {"picture": rows, "label": [name.split("/")[1] for name in names]}
        parts[split] = datasets.Dataset.from_dict(columns, features)
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    return Path(f"hf:{tmp_path / 'saved'}")


def hub(tmp_path, pixels, files):
    pa = pytest.importorskip("pyarrow")
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    described = {"img": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": CLASSES}}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for split in SPLITS:
        names = [name for name in files if name.startswith(split)]
        for shard, part in enumerate((names[:4], names[4:])):
            images = pa.array([{"bytes": files[name], "path": name} for name in part], kind)
            labels = [CLASSES.index(name.split("/")[1]) for name in part]
            path = folder / f"{split}-{shard:05d}-of-00002.parquet"
            columns = {"img": images, "label": labels}
            write_parquet(path, columns, described, row_group_size=2)
    (tmp_path / "hub" / "README.md").write_text("about")
    return tmp_path / "hub"


MAKERS = {
    "folders": folders(""),
    "nested folders": folders("set/images/"),
    "zip": zipped,
    "windows zip": windows_zip,
    "csv": listed,
    "hub": hub,
    "saved": saved,
}


@pytest.fixture(params=MAKERS)
def made(request, tmp_path, pixels, files):
    return MAKERS[request.param](tmp_path, pixels, files)


def contents(records):
    return sorted((str(record.label), decode(record.data).tobytes()) for record in records)


@pytest.mark.parametrize("split", SPLITS)
def test_every_source_gives_the_same_images_and_labels(made, pixels, split):
    source = open_images(made, split=split)
    records = list(source.records())

    expected = sorted((key[1], pixels[key].tobytes()) for key in pixels if key[0] == split)
    assert contents(records) == expected
    assert len(source) == len(records) == len(CLASSES) * PER_CLASS
    assert len({record.name for record in records}) == len(records)


def test_records_from_a_start_are_the_tail(made):
    source = open_images(made, split="train")
    whole = [(r.name, r.label, decode(r.data).tobytes()) for r in source.records()]

    for start in range(len(whole) + 2):
        tail = [(r.name, r.label, decode(r.data).tobytes()) for r in source.records(start)]
        assert tail == whole[start:]


def test_a_source_opened_again_is_the_same(made):
    first, second = (open_images(made, split="train") for _ in range(2))
    assert first.digest() == second.digest()
    assert [r.name for r in first.records()] == [r.name for r in second.records()]
    assert first.digest() != open_images(made, split="test").digest()


def test_several_splits_have_to_be_chosen_from(made):
    with pytest.raises(ImageError, match="has the splits 'test', 'train'") as caught:
        open_images(made)
    assert str(made).removeprefix("hf:") in str(caught.value)
    assert "--split" in str(caught.value)
    with pytest.raises(ImageError, match="no split 'dress'; it has 'test', 'train'"):
        open_images(made, split="dress")


def test_folder_and_zip_name_images_alike(tmp_path, pixels, files):
    made = [maker(tmp_path, pixels, files) for maker in (folders(""), windows_zip)]
    sources = [open_images(path, split="train") for path in made]
    assert len({tuple(sorted(r.name for r in source.records())) for source in sources}) == 1
    assert sources[0].digest() == sources[1].digest()
