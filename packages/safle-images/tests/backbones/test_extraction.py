"""Features are an image's own: the same bytes in any batch, place, thread count or interruption."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_support.archives import encoded
from safle import open_table
from safle.errors import ImageError, StoreError
from safle_images.backbones import Backbone, Batch, extract, load_backbone
from safle_images.backbones.writing import Journal, write_features
from safle_images.readers import ImageSource, Record

MakeOnnx = Callable[..., Path]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory, tiny_onnx: MakeOnnx) -> Backbone:
    return load_backbone(str(tiny_onnx(tmp_path_factory.mktemp("onnx") / "tiny.onnx")))


class Images:
    """A source in memory; every seventh image may be broken."""

    description = "made up"

    def __init__(self, count: int, *, broken: bool = False, labels: bool = True) -> None:
        self.all = [
            Record(
                f"image {at}",
                f"class, {at % 3}" if labels else None,
                b"nothing"
                if broken and at % 7 == 3
                else encoded(size=(20 + at % 7, 60 - at % 9), seed=at),
            )
            for at in range(count)
        ]

    def __len__(self) -> int:
        return len(self.all)

    def digest(self) -> str:
        return f"{len(self)}"

    def records(self, start: int = 0) -> Iterator[Record]:
        yield from self.all[start:]


def together(batches: Iterator[Batch]) -> tuple[np.ndarray, list[object], list[str]]:
    parts = list(batches)
    features = np.concatenate([part.features for part in parts])
    labels = [label for part in parts for label in part.labels]
    return features, labels, [name for part in parts for name, _ in part.unreadable]


@pytest.mark.parametrize("broken", [False, True])
def test_extraction_gives_the_same_bytes_for_any_batch_and_workers(
    backbone: Backbone, broken: bool
) -> None:
    images = Images(45, broken=broken)
    expected = together(extract(images.records(), backbone, batch=45, workers=1))
    assert len(expected[0]) + len(expected[2]) == 45
    for batch, workers in [(1, 1), (3, 2), (8, 3), (17, 5), (100, 2)]:
        found = together(extract(images.records(), backbone, batch=batch, workers=workers))
        assert found[0].tobytes() == expected[0].tobytes()
        assert found[1:] == expected[1:]


def test_an_image_has_its_features_alone_or_in_company(backbone: Backbone) -> None:
    images = Images(21)
    whole, _, _ = together(extract(images.records(), backbone))
    backwards, _, _ = together(extract(images.all[::-1], backbone, batch=4))
    assert whole.tobytes() == backwards[::-1].tobytes()
    for at in (0, 9, 20):
        alone, _, _ = together(extract([images.all[at]], backbone))
        assert alone.tobytes() == whole[at : at + 1].tobytes()


@pytest.mark.parametrize("batch", ["batch", 1, 5])
def test_networks_that_mix_their_batch_get_one_image_a_call(
    tmp_path: Path, tiny_onnx: MakeOnnx, batch: int | str
) -> None:
    mixing = load_backbone(str(tiny_onnx(tmp_path / "m.onnx", mixed=True, batch=batch)))
    assert mixing.network.used == 1
    images = Images(7)
    whole, _, _ = together(extract(images.records(), mixing, batch=7))
    alone, _, _ = together(extract([images.all[5]], mixing))
    assert alone.tobytes() == whole[5:6].tobytes()


def test_raw_pixels_are_images_too(backbone: Backbone) -> None:
    images = Images(3)
    pixels = [
        Record(r.name, r.label, np.asarray(Image.open(io.BytesIO(r.data)))) for r in images.all
    ]
    whole, _, _ = together(extract(images.records(), backbone))
    assert together(extract(pixels, backbone))[0].tobytes() == whole.tobytes()


def test_extraction_holds_few_images_in_memory(backbone: Backbone) -> None:
    read = 0

    def records() -> Iterator[Record]:
        nonlocal read
        for record in Images(200).all:
            read += 1
            yield record

    stream = extract(records(), backbone, batch=4, workers=2)
    for done in range(1, 20):
        next(stream)
        # What is decoded ahead, and three calls of eight.
        assert read <= 4 * done + 2 * (8 + 2) + 3 * 8
    stream.close()
    assert read < 125


def test_an_error_of_the_source_ends_it(backbone: Backbone) -> None:
    def records() -> Iterator[Record]:
        yield from Images(5).all
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        list(extract(records(), backbone, batch=2, workers=2))


# --- The file, and what is left of an interrupted one -------------------------------------


def test_a_features_file_is_a_table_with_a_source(tmp_path: Path, backbone: Backbone) -> None:
    images = Images(20)
    written = write_features(images, backbone, tmp_path / "f.safetensors")
    table = open_table(tmp_path / "f.safetensors")
    expected, labels, _ = together(extract(images.records(), backbone))
    assert np.asarray(table.features).tobytes() == expected.tobytes()
    assert table.labels is not None
    assert table.labels.tolist() == labels
    assert table.source == backbone.source
    assert written.samples == len(table) == 20
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


def test_images_without_labels(tmp_path: Path, backbone: Backbone) -> None:
    write_features(Images(5, labels=False), backbone, tmp_path / "f.safetensors")
    assert open_table(tmp_path / "f.safetensors").labels is None


@pytest.mark.parametrize("after", [0, 1, 10, 39])
def test_an_interrupted_run_ends_in_the_same_bytes(
    tmp_path: Path, backbone: Backbone, after: int
) -> None:
    images = Images(40, broken=True)
    write_features(images, backbone, tmp_path / "whole.safetensors", max_unreadable=1.0)
    output = tmp_path / "f.safetensors"
    with pytest.raises(KeyboardInterrupt):
        _run_until(images, backbone, output, after)
    assert not output.exists()
    written = write_features(images, backbone, output, batch=7, max_unreadable=1.0)
    assert written.resumed == -(-after // 3) * 3
    assert output.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    reports = [tmp_path / f"{name}.safetensors.unreadable.txt" for name in ("whole", "f")]
    assert reports[0].read_text() == reports[1].read_text()


def _run_until(images: Images, backbone: Backbone, output: Path, after: int) -> None:
    def stop(done: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    write_features(images, backbone, output, batch=3, max_unreadable=1.0, advance=stop)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99, 1.0])
def test_a_torn_end_is_redone(tmp_path: Path, backbone: Backbone, share: float) -> None:
    """Whatever part of the log reached the disk, the run ends in the same bytes."""
    images, output = Images(30), tmp_path / "f.safetensors"
    write_features(images, backbone, tmp_path / "whole.safetensors")
    (tmp_path / "left").mkdir()

    def copy(done: int) -> None:
        if done >= 20:
            for path in tmp_path.glob("f.safetensors.partial*"):
                shutil.copy(path, tmp_path / "left")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_features(images, backbone, output, batch=3, advance=copy)
    log = tmp_path / "left" / "f.safetensors.partial-wal"
    log.write_bytes(log.read_bytes()[: int(share * log.stat().st_size)])
    again = tmp_path / "left" / "f.safetensors"
    written = write_features(images, backbone, again)
    assert written.resumed % 3 == 0
    assert written.resumed >= 18 or share < 0.99
    assert again.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_names_stay_with_their_rows(tmp_path: Path, backbone: Backbone) -> None:
    """A broken image shifts the rows behind it, but not what they are called."""
    images, output = Images(30, broken=True), tmp_path / "f.safetensors"
    with pytest.raises(KeyboardInterrupt):
        _run_until(images, backbone, output, 20)
    write_features(images, backbone, output, max_unreadable=0.5)
    table = open_table(output)
    assert table.ids is not None
    assert table.ids.tolist() == [f"image {at}" for at in range(30) if at % 7 != 3]
    alone, _, _ = together(extract([images.all[25]], backbone))
    assert (table.features[table.ids.tolist().index("image 25")] == alone[0]).all()


def test_extraction_refuses_an_invalid_journal(tmp_path: Path, backbone: Backbone) -> None:
    (tmp_path / "f.safetensors.partial").write_bytes(b"somebody's file" * 100)
    with pytest.raises(StoreError, match=r"cannot be used .*not a database.*delete it"):
        write_features(Images(3), backbone, tmp_path / "f.safetensors")
    assert (tmp_path / "f.safetensors.partial").read_bytes().startswith(b"somebody")


def test_another_runs_rest_is_not_continued(tmp_path: Path, backbone: Backbone) -> None:
    output = tmp_path / "f.safetensors"
    with pytest.raises(KeyboardInterrupt):
        _run_until(Images(30), backbone, output, 20)
    notes: list[str] = []
    written = write_features(Images(31), backbone, output, note=notes.append)
    assert written.resumed == 0
    assert "starting again" in notes[0]


def test_extraction_runs_do_not_share_an_output(tmp_path: Path) -> None:
    part = Batch(1, np.zeros((1, 2), np.float32), ["a"], [None], [])
    with Journal(tmp_path / "f", {}) as first:
        first.append(part, b"")
        # The second one of other images would delete the first one's journal.
        for header in ({}, {"images": 2}):
            with pytest.raises(StoreError, match="another run"):
                Journal(tmp_path / "f", header)
        first.append(part, b"")
    with Journal(tmp_path / "f", {}) as again:
        assert again.names == ["a", "a"]


# --- Unreadable images -------------------------------------------------------------------


def test_unreadable_images_are_listed_and_counted(tmp_path: Path, backbone: Backbone) -> None:
    output = tmp_path / "f.safetensors"
    written = write_features(Images(20, broken=True), backbone, output, max_unreadable=0.2)
    assert written.samples == 17
    lines = (tmp_path / "f.safetensors.unreadable.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["image 3", "image 10", "image 17"]


def test_too_many_are_an_error_and_a_larger_share_goes_on(
    tmp_path: Path, backbone: Backbone
) -> None:
    output, images = tmp_path / "f.safetensors", Images(20, broken=True)
    with pytest.raises(ImageError, match=r"2 unreadable.*0\.05 of 20.*image 3.*unreadable\.txt"):
        write_features(images, backbone, output, max_unreadable=0.05, batch=4, workers=1)
    assert not output.exists()
    assert (tmp_path / "f.safetensors.unreadable.txt").exists()
    assert write_features(images, backbone, output, max_unreadable=0.2).resumed > 0


def test_a_clean_run_removes_an_old_report(tmp_path: Path, backbone: Backbone) -> None:
    report = tmp_path / "f.safetensors.unreadable.txt"
    report.write_text("old")
    write_features(Images(3), backbone, tmp_path / "f.safetensors")
    assert not report.exists()


def test_names_cannot_add_lines_to_the_report(tmp_path: Path, backbone: Backbone) -> None:
    bad = "a\nb\tc\x1b[31m"
    source = ImageSource("toys", None, [bad], [None], [], lambda _: iter([b"no image"]))
    write_features(source, backbone, tmp_path / "f.safetensors", max_unreadable=1.0)
    (line,) = (tmp_path / "f.safetensors.unreadable.txt").read_text().splitlines()
    assert line.startswith("a\\nb\\tc\\x1b[31m\tis not an image")
