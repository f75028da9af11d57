"""Hugging Face data sets that are broken or made to do harm, and the library's own habits."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from image_support.archives import write_parquet
from safle.errors import ImageError
from safle_images.readers import decode, open_images

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Nothing local may talk to anyone."""

    def connect(*_):
        raise AssertionError("a local data set asked for the network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)


def test_local_parquet_needs_no_network_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    cache = Path(datasets.config.HF_CACHE_HOME)
    before = sorted(cache.rglob("*"))
    path = write_parquet(tmp_path / "p.parquet", {"image": [b"x"] * 3, "label": [0, 1, 2]})
    assert [record.label for record in open_images(path).records()] == [0, 1, 2]
    assert sorted(cache.rglob("*")) == before


def test_a_folder_by_name_needs_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "pets"
    folder.mkdir()
    for split, count in (("train", 3), ("test", 2)):
        columns = {"image": [b"x"] * count, "label": list(range(count))}
        write_parquet(folder / f"{split}-00000-of-00001.parquet", columns)
    for text, options in ((f"hf:{folder}:train", {}), (f"hf:{folder}", {"split": "train"})):
        source = open_images(text, **options)
        assert [record.label for record in source.records()] == [0, 1, 2]
        assert [record.label for record in source.records(2)] == [2]
    with pytest.raises(ImageError, match="splits 'test', 'train'"):
        open_images(f"hf:{folder}")


def test_an_image_folder_by_name_is_read_from_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "1.png").write_bytes(name.encode())
    source = open_images(f"hf:{tmp_path / 'pets'}")
    assert [(r.label, r.data) for r in source.records()] == [("cat", b"cat"), ("dog", b"dog")]


def test_a_data_set_with_a_script_is_refused_and_not_run(tmp_path):
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    write_parquet(folder / "train.parquet", {"image": [b"x"], "label": [1]})
    with pytest.raises(ImageError, match="scripts are no longer supported"):
        open_images(f"hf:{folder}")
    assert not (tmp_path / "ran").exists()


def test_pickles_are_not_read(tmp_path, monkeypatch):
    # A reader's own name looks for data in the current folder.
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "evil"
    folder.mkdir()
    ran = tmp_path / "ran"
    # A pickle, protocol 0, that would open the file for writing.
    (folder / "train.pkl").write_bytes(b"cbuiltins\nopen\n(V" + str(ran).encode() + b"\nVw\ntR.")
    (folder / "README.md").write_text("---\nconfigs:\n- config_name: d\n  data_files: '*.pkl'\n---")
    with pytest.raises(ImageError):
        open_images(f"hf:{folder}")
    for builder in ("pandas", "text", "sql"):
        with pytest.raises(ImageError):
            open_images(f"hf:{builder}")
    assert not ran.exists()


@pytest.mark.parametrize("name", ["/etc/hostname", "../secret.png", "a/../../secret.png", "x\0"])
def test_paths_that_lead_out_of_a_data_set(tmp_path, name):
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "in.png").write_bytes(b"inside")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": None, "path": path} for path in (name, "in.png")]
    for columns in ({"image": pa.array(rows, kind)}, {"image": [name, "in.png"]}):
        path = write_parquet(tmp_path / "set" / "p.parquet", columns)
        outside, inside = open_images(path).records()
        assert outside.data == b""
        with pytest.raises(ImageError, match="outside the data set"):
            decode(outside.data)
        assert inside.data == b"inside"


def test_a_cell_that_is_too_large_is_one_unreadable_image(tmp_path):
    (tmp_path / "big.png").write_bytes(bytes(2000))
    embedded = write_parquet(tmp_path / "p.parquet", {"image": [bytes(2000), b"x"]})
    named = write_parquet(tmp_path / "q.parquet", {"image": ["big.png", "big.png"]})
    for path in (embedded, named):
        first = next(open_images(path, most_bytes=1000).records())
        with pytest.raises(ImageError, match="1000"):
            decode(first.data)


@pytest.mark.parametrize(
    "features", [7, {"image": 7}, {"label": {"_type": "os.system"}}, {"label": {"_type": "Nope"}}]
)
def test_metadata_that_makes_no_sense(tmp_path, features):
    path = write_parquet(tmp_path / "p.parquet", {"image": [b"x"], "label": [0]}, features)
    with pytest.raises(ImageError, match="cannot be read"):
        open_images(path)


def test_hub_data_with_two_class_columns_needs_a_choice(tmp_path):
    names = {"_type": "ClassLabel", "names": ["a", "b"]}
    features = {"img": {"_type": "Image"}, "fine_label": names, "coarse_label": names}
    columns = {"img": [b"x"], "fine_label": [0], "coarse_label": [1]}
    path = write_parquet(tmp_path / "p.parquet", columns, features)
    with pytest.raises(ImageError, match="'label' but 'fine_label', 'coarse"):
        open_images(path)
    for column, label in (("fine_label", "a"), ("coarse_label", "b")):
        assert next(open_images(path, label_column=column).records()).label == label


def test_a_name_that_is_nowhere(tmp_path):
    with pytest.raises(ImageError, match="cannot be read"):
        open_images("hf:nobody/nothing")
    with pytest.raises(ImageError, match="name one split only"):
        open_images("hf:some:train", split="test")


def test_a_file_name_is_not_a_pattern(tmp_path):
    write_parquet(tmp_path / "a1.parquet", {"image": [b"other"], "label": [1]})
    path = write_parquet(tmp_path / "a[1].parquet", {"image": [b"own"], "label": [2]})
    assert [(r.data, r.label) for r in open_images(path).records()] == [(b"own", 2)]
