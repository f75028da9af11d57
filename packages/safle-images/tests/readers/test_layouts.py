"""Where classes, labels and the order of images come from."""

from __future__ import annotations

import shutil

import pytest

from image_support.archives import write_folder, write_parquet, write_zip
from safle.errors import ImageError
from safle_images.readers import ImageSource, decode, open_images


def test_order_is_by_name_but_a_csv_keeps_its_own(tmp_path):
    names = [f"{at % 2}/{at}.png" for at in (3, 1, 2)]
    some = dict.fromkeys(names, b"x")
    folder = write_folder(tmp_path / "folder", some)
    (folder / "list.csv").write_text("path\n" + "\n".join(names))

    def order(path):
        return [record.name for record in open_images(path).records()]

    assert order(folder) == order(write_zip(tmp_path / "z.zip", some)) == sorted(names)
    assert order(folder / "list.csv") == names


def test_labels_in_the_digest(tmp_path):
    folder = write_folder(tmp_path, {"1.png": b"x"})
    (folder / "a.csv").write_text("path,label\n1.png,a")
    (folder / "b.csv").write_text("path,label\n1.png,b")
    digests = {open_images(folder / name).digest() for name in ("a.csv", "b.csv")}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["1.jpg", "2.jpg"], [None, None]),
        (["cat/1.jpg"], ["cat"]),
        (["set/cat/1.jpg"], ["cat"]),
        (["cat/1.jpg", "dog/2.jpg"], ["cat", "dog"]),
        (["set/v2/cat/1.jpg", "set/v2/dog/2.jpg"], ["cat", "dog"]),
        (["cat/deep/1.jpg", "dog/2.jpg"], ["cat", "dog"]),
        (["bus/1.jpg", "train/2.jpg"], ["bus", "train"]),
        (["train/cat/1.jpg"], ["cat"]),
        (["set/train/cat/1.jpg", "set/train/dog/1.jpg"], ["cat", "dog"]),
        (["train/1.jpg"], [None]),
        (["cat/1.JPG", "cat/.2.jpg", "__MACOSX/cat/3.jpg", "cat/notes.txt"], ["cat"]),
        (["cat/1.jpg", "dog/1.jpg", "about.parquet"], ["cat", "dog"]),
    ],
)
def test_classes_are_found_by_folder(tmp_path, names, labels):
    made = [
        write_folder(tmp_path / "folder", dict.fromkeys(names, b"x")),
        write_zip(tmp_path / "z.zip", dict.fromkeys(names, b"x")),
    ]
    layout = "folders" if len({*labels}) == 1 and labels[0] else None
    for path in made:
        assert [record.label for record in open_images(path, layout=layout).records()] == labels


def test_accents_are_one_letter_wherever_the_folder_was_made(tmp_path):
    composed, decomposed = (
        "z\N{LATIN SMALL LETTER E WITH GRAVE}bre",
        "ze\N{COMBINING GRAVE ACCENT}bre",
    )
    for at, name in enumerate((composed, decomposed)):
        folder = write_folder(tmp_path / str(at), {f"{name}/1.png": b"x", "cat/1.png": b"x"})
        assert {*open_images(folder).labels} == {composed, "cat"}


def test_labels_of_a_csv_are_integers_if_all_are(tmp_path):
    write_folder(tmp_path, {"1.png": b"x", "2.png": b"y"})
    for cells, labels in ((("3", "-4"), [3, -4]), (("3", "b"), ["3", "b"])):
        (tmp_path / "l.csv").write_text(f"path,label\n1.png,{cells[0]}\n2.png,{cells[1]}\n")
        assert [r.label for r in open_images(tmp_path / "l.csv").records()] == labels


def test_labels_that_nobody_asked_for_are_named(tmp_path):
    folder = write_folder(tmp_path / "a", {"1.png": b"x"})
    (folder / "l.csv").write_text("path,breed,split\n1.png,pug,train\n")
    with pytest.raises(ImageError, match=r"'label' but 'breed'; .*--label-column"):
        open_images(folder / "l.csv")
    assert next(open_images(folder / "l.csv", label_column="breed").records()).label == "pug"
    assert next(open_images(folder / "l.csv", label_column="").records()).label is None


def test_links_in_a_folder_are_followed_but_not_in_circles(tmp_path):
    folder = write_folder(tmp_path / "a", {"cat/1.png": b"x"})
    (folder / "cat" / "up").symlink_to(folder, target_is_directory=True)
    (folder / "dog").mkdir()
    (folder / "dog" / "2.png").symlink_to(folder / "cat" / "1.png")
    assert [r.name for r in open_images(folder).records()] == ["cat/1.png", "dog/2.png"]


def test_parquet_labels_and_plain_bytes(tmp_path):
    columns = {"photo": [b"x", None], "kind": ["cat", "dog"], "label": [7, 8]}
    write_parquet(tmp_path / "p.parquet", columns)

    source = open_images(tmp_path / "p.parquet", image_column="photo")
    first, second = source.records()
    assert (first.label, second.label) == (7, 8)
    assert first.data == b"x"
    with pytest.raises(ImageError, match="has neither bytes nor a file"):
        decode(second.data)
    named = open_images(tmp_path / "p.parquet", image_column="photo", label_column="kind")
    assert [record.label for record in named.records()] == ["cat", "dog"]


def test_hub_label_minus_one_means_no_label(tmp_path):
    described = {"label": {"_type": "ClassLabel", "names": ["a"]}}
    columns = {"image": [b"x", b"y"], "label": [-1, 0]}
    write_parquet(tmp_path / "p.parquet", columns, described)
    assert [r.label for r in open_images(tmp_path / "p.parquet").records()] == [None, "a"]


def test_the_description_counts(tmp_path):
    folder = write_folder(tmp_path / "pets", {"cat/1.png": b"x", "dog/1.png": b"x"})
    assert open_images(folder).description == "class folders in pets: 2 images, 2 classes"
    shutil.rmtree(folder / "dog")
    one = open_images(folder, layout="folders")
    assert one.description == "class folders in pets: 1 image, 1 class"
    many = ImageSource("many", "test", range(10_000), [None] * 10_000, [], iter)
    assert many.description == "many: 10,000 test images, no labels"
