"""Folders, lists and tables of images that cannot be used: each says what to do."""

from __future__ import annotations

import pytest

from image_support.archives import refuses, write_folder, write_parquet
from safle_images.readers import open_images


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        ("path,label\n", "no rows"),
        ("a,b\n1,2\n", "has the columns 'a', 'b'; expected.*--image-column"),
        ("path,label\n1.png\n", "row 1 has no label"),
        ("path,label\n1.png,cat,dog\n", "rows of as many cells"),
        ("path,label\n1.png,\n", "row 1 has no label"),
        ("path,label\n,cat\n", "row 1 has no path"),
        ("path,split\n1.png,\n", "row 1 has no split"),
        (
            "path,label\n1.png,cat\n2.png,cat\n3.png,cat\n",
            "row 2 names .*2.png, which does not exist",
        ),
        ("path,label\n1.png,cat\n1.png,dog\n", "has 1.png twice"),
        ("path,label\n1.png,99999999999999999999\n", "64 signed bits"),
        ("path,label\n1\0.png,cat\n", "is not below"),
        ("path,label\n.,cat\n", "not a regular file"),
        ("path,label\n\udcff.png,cat\n", "UTF-8"),
    ],
)
def test_a_broken_csv(tmp_path, text, match):
    (tmp_path / "1.png").write_bytes(b"x")
    (tmp_path / "l.csv").write_bytes(text.encode(errors="surrogateescape"))
    refuses(tmp_path / "l.csv", match)


def test_columns_that_are_not_there(tmp_path):
    (tmp_path / "l.csv").write_text("path,label\n1.png,cat\n")
    refuses(tmp_path / "l.csv", "no column 'breed' but 'label'", label_column="breed")
    refuses(tmp_path / "l.csv", "expected.*in 'photo'", image_column="photo")


def test_folders_without_classes_or_images(tmp_path):
    refuses(tmp_path / "none", "no such file or folder")
    (tmp_path / "a" / "cat").mkdir(parents=True)
    refuses(tmp_path / "a", "no files; expected images in class folders")
    (tmp_path / "a" / "cat" / "1.heic").write_bytes(b"x")
    refuses(tmp_path / "a", "1 file ending in '.heic'; expected images")
    write_folder(tmp_path / "a", {"dog/1.png": b"x"})
    # A client may have images of one class, and then has to say so.
    assert open_images(tmp_path / "a", layout="folders").labels == ["dog"]
    (tmp_path / "a" / "1.png").write_bytes(b"x")
    refuses(tmp_path / "a", "1 image of 2 not in a class folder, such as 1.png")


def test_options_that_do_not_apply(tmp_path):
    write_folder(tmp_path, {"a/cat/1.png": b"x"})
    refuses(tmp_path / "a", "it has no splits: leave it out", split="train")
    refuses(tmp_path / "a", "label_column='x' does not apply to class folders", label_column="x")
    refuses(tmp_path / "a", "image_column='x' does not apply to files of images", image_column="x")
    (tmp_path / "x.rar").write_bytes(b"x")
    refuses(tmp_path / "x.rar", r"unknown file type; expected a folder, \.zip")


def test_parquet_without_images(tmp_path):
    path = tmp_path / "p.parquet"
    write_parquet(path, {"x": [1.0], "label": [1]})
    refuses(path, "has the columns 'x', 'label'; expected encoded images")
    write_parquet(path, {"image": [b"x"], "label": [1.5]})
    refuses(path, "column 'label' holds float64; expected labels")
    write_parquet(path, {"image": [[1, 2]]})
    refuses(path, "expected encoded images")
    write_parquet(path, {"image": [b"x"], "breed": ["cat"]})
    refuses(path, "no column 'label' but 'breed'; name the column of labels with --label-column")
    assert next(open_images(path, label_column="").records()).label is None
    named = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a"]}}
    write_parquet(path, {"image": [b"x"], "label": [3]}, named)
    refuses(path, "has the label 3, but its metadata names 1 classes")


@pytest.mark.parametrize("name", ["../1.png", "/etc/hostname", "a/../../1.png"])
def test_a_list_that_leads_elsewhere(tmp_path, name):
    (tmp_path / "1.png").write_bytes(b"x")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "l.csv").write_text(f"path,label\n{name},cat\n")
    refuses(tmp_path / "set" / "l.csv", "row 1 names .* which is not below")
