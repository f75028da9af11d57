"""Data sets as their authors ship them: each is taken for what it is, with the right labels."""

from __future__ import annotations

import numpy as np
import pytest

from image_support import shipped
from image_support.archives import refuses, write_folder
from image_support.shipped import COARSE, FINE, WNIDS, image_of, rows_of, write_any, write_tar
from safle.errors import ImageError
from safle_images.readers import LAYOUTS, decode, open_images

CONTAINERS = ("folder", ".zip", ".tar", ".tar.gz")
CIFAR = {
    "CIFAR-10 binary": (shipped.cifar10_binary, 5),
    "CIFAR-10 python": (shipped.cifar10_python, 5),
    "CIFAR-100 binary": (shipped.cifar100_binary, 1),
    "CIFAR-100 python": (shipped.cifar100_python, 1),
}


def contents(source):
    """Name, label and pixels of all images; any start gives the tail."""
    found = [(r.name, r.label, decode(r.data).tobytes()) for r in source.records()]
    for start in range(len(found) + 1):
        tail = [(r.name, r.label, decode(r.data).tobytes()) for r in source.records(start)]
        assert tail == found[start:]
    assert len({name for name, _, _ in found}) == len(found) == len(source)
    return found


def pixels_of(rows):
    return [np.ascontiguousarray(r.reshape(3, 32, 32).transpose(1, 2, 0)).tobytes() for r in rows]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", CIFAR)
def test_cifar(tmp_path, name, container):
    files, batches = CIFAR[name]
    path = write_any(tmp_path, files(), container)
    title, fine = name.split()[0], "fine labels" if "100" in name else None
    names = FINE if fine else shipped.CIFAR_10
    parts = shipped.cifar100_parts() if fine else shipped.cifar_parts()
    for split, chosen in (("train", [*parts][:batches]), ("test", [*parts][-1:])):
        source = open_images(path, split=split)
        kind = f"{title}, {fine}" if fine else title
        count = 3 * len(chosen)
        assert (
            source.description == f"{kind}: {count} {split} images, {len({*source.labels})} classes"
        )
        expected = [
            (f"{batch}/{row:05d}", names[label], data)
            for batch in chosen
            for row, (label, data) in enumerate(
                zip(parts[batch][0], pixels_of(parts[batch][2]), strict=True)
            )
        ]
        assert contents(source) == expected
    with pytest.raises(ImageError, match="has the splits 'test', 'train'"):
        open_images(path)


@pytest.mark.parametrize("files", [shipped.cifar100_binary, shipped.cifar100_python])
def test_coarse_labels(tmp_path, files):
    path = write_folder(tmp_path, files())
    source = open_images(path, split="test", label_column="coarse")
    coarse = shipped.cifar100_parts()["test"][1]
    assert source.description == "CIFAR-100, coarse labels: 3 test images, 3 classes"
    assert source.labels == [COARSE[label] for label in coarse]
    assert open_images(path, split="test", label_column="").labels == [None] * 3
    refuses(path, "no column 'rough' but 'coarse', 'fine'", split="test", label_column="rough")


SHIPPED = {
    "cifar10_binary": "train",
    "cifar10_python": "train",
    "cifar100_binary": "test",
    "cifar100_python": "test",
    "tiny_imagenet": "val",
    "ham10000": None,
    "isic2019": None,
    "webdataset": None,
}


@pytest.mark.parametrize("container", CONTAINERS[2:])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_run_is_resumed_by_the_same_names(tmp_path, name, container):
    path = write_any(tmp_path, getattr(shipped, name)(), container)
    first, second = (open_images(path, split=SHIPPED[name]) for _ in range(2))
    assert first.digest() == second.digest()
    assert [*first.names] == [*second.names]


def test_cifar_versions_in_one_folder_need_a_choice(tmp_path):
    write_folder(tmp_path, shipped.cifar10_binary() | shipped.cifar10_python())
    with pytest.raises(ImageError, match="cifar-10-batches-bin/, cifar-10-batches"):
        open_images(tmp_path, split="test")


def test_a_client_with_one_batch(tmp_path):
    files = shipped.cifar10_python()
    kept = ("cifar-10-batches-py/data_batch_3", "cifar-10-batches-py/batches.meta")
    source = open_images(write_folder(tmp_path, {name: files[name] for name in kept}))
    assert next(source.records()).name == "data_batch_3/00000"


@pytest.mark.parametrize("container", CONTAINERS)
def test_tiny_imagenet(tmp_path, container):
    path = write_any(tmp_path, shipped.tiny_imagenet(), container)
    train, val, test = (open_images(path, split=split) for split in ("train", "val", "test"))
    assert train.description == "Tiny-ImageNet, numbers of WordNet: 6 train images, 3 classes"
    assert all(name.split("/")[-1].startswith(label) for name, label, _ in contents(train))
    assert [(name.split("/")[-1], label) for name, label, _ in contents(val)] == [
        (f"val_{i}.JPEG", WNIDS[-i]) for i in range(3)
    ]
    assert test.labels == [None] * 3
    assert test.description == "Tiny-ImageNet, numbers of WordNet: 3 test images, no labels"


def test_a_part_of_tiny_imagenet(tmp_path):
    root = write_folder(tmp_path, shipped.tiny_imagenet()) / "tiny-imagenet-200"
    assert open_images(root / "val").labels == [WNIDS[-i] for i in range(3)]
    assert {*open_images(root / "train").labels} == {*WNIDS}
    refuses(root / "test", "look like parts of an archive|only the class 'images'|")
    (root / "val" / "images" / "val_9.JPEG").write_bytes(b"x")
    refuses(root, "val_9.JPEG has the class None", split="val")


@pytest.mark.parametrize("container", CONTAINERS)
def test_ham10000(tmp_path, container):
    path = write_any(tmp_path, shipped.ham10000(), container)
    source = open_images(path)
    assert source.description == "HAM10000, column dx: 4 images, 3 classes"
    assert source.labels == ["bkl", "bkl", "mel", "nv"]
    assert [data for _, _, data in contents(source)] == pixels_of(
        np.concatenate([rows_of(1, at) for at in range(4)])
    )
    assert open_images(path, label_column="sex").labels == ["male", "male", "female", "male"]


def test_ham10000_by_its_list_and_twice(tmp_path):
    write_folder(tmp_path, shipped.ham10000())
    by_list = open_images(tmp_path / "HAM10000_metadata.csv")
    assert by_list.labels == ["bkl", "bkl", "mel", "nv"]
    assert [r.data for r in by_list.records()] == [r.data for r in open_images(tmp_path).records()]
    # As in some copies: the same folder in small letters.
    folder = tmp_path / "ham10000_images_part_1"
    folder.mkdir()
    (folder / "ISIC_0027419.jpg").write_bytes(image_of(rows_of(1, 0)))
    assert len(open_images(tmp_path)) == 4
    (folder / "ISIC_0027419.jpg").write_bytes(b"another")
    refuses(tmp_path, "two images of one name, .*ISIC_0027419.jpg and .*ISIC_0027419.jpg")


@pytest.mark.parametrize("container", CONTAINERS)
def test_isic_2019(tmp_path, container):
    path = write_any(tmp_path, shipped.isic2019(), container)
    source = open_images(path)
    assert source.description == "ISIC 2019, diagnoses: 3 training images, 3 classes"
    assert source.labels == ["NV", "MEL", "UNK"]
    assert [name.split("/")[-1] for name, _, _ in contents(source)] == [
        *("ISIC_0000000.jpg", "ISIC_0000002_downsampled.jpg", "ISIC_0000013.jpg")
    ]


@pytest.mark.parametrize("cells", ["1.0,1.0", "0.0,0.0", "0.5,0.5", "yes,no"])
def test_isic_without_one_diagnosis(tmp_path, cells):
    (tmp_path / "ISIC_2019_Training_GroundTruth.csv").write_text(f"image,MEL,NV\nI,{cells}\n")
    (tmp_path / "I.jpg").write_bytes(b"x")
    refuses(tmp_path, "row 1 has . diagnoses")


@pytest.mark.parametrize("grey", [False, True])
def test_medmnist(tmp_path, grey):
    path = shipped.medmnist(tmp_path / "pathmnist.npz", grey=grey)
    for at, split in enumerate(("train", "val", "test")):
        source = open_images(path, split=split)
        assert source.description == f"MedMNIST pathmnist: 4 {split} images, 3 classes"
        assert source.labels == [8, 0, 3, 8]
        planes = rows_of(4, at).reshape(4, 3, 32, 32)
        planes = planes[:, [0, 0, 0]] if grey else planes
        assert [data for _, _, data in contents(source)] == pixels_of(planes.reshape(4, -1))


@pytest.mark.parametrize("container", [".tar", ".tar.gz", "folder"])
@pytest.mark.parametrize("label", ["cls", "json", "txt"])
def test_webdataset(tmp_path, label, container):
    files = shipped.webdataset(label)
    path = tmp_path / "shards"
    if container == "folder":
        path.mkdir()
        for part in (0, 1):
            chosen = dict([*files.items()][4 * part : 4 * part + 4])
            write_tar(path / f"toy-train-{part:06d}.tar", chosen)
    else:
        path = write_tar(tmp_path / f"toy{container}", files)
    source = open_images(path)
    split = "train " if container == "folder" else ""
    said = f"WebDataset {path.name}, labels in '{'label' if label == 'json' else label}'"
    assert source.description == f"{said}: 4 {split}images, 3 classes"
    expected = [at % 3 for at in range(4)]
    assert source.labels == ([f"class {at}" for at in expected] if label == "txt" else expected)
    assert [data for _, _, data in contents(source)] == pixels_of(
        np.concatenate([rows_of(1, at) for at in range(4)])
    )


def test_labels_of_a_webdataset(tmp_path):
    files = shipped.webdataset("json") | {f"sample{at:06d}.txt": b"%d" % at for at in range(4)}
    ordered = {name: files[name] for name in sorted(files)}
    path = write_tar(tmp_path / "toy.tar", ordered)
    assert open_images(path).labels == [0, 1, 2, 0]
    assert open_images(path, label_column="source").labels == ["x"] * 4
    assert open_images(path, label_column="txt").labels == ["0", "1", "2", "3"]
    assert open_images(path, label_column="").labels == [None] * 4
    captions = {name: data for name, data in ordered.items() if not name.endswith("json")}
    refuses(write_tar(tmp_path / "c.tar", captions), "and not captions; --label-column txt")


@pytest.mark.parametrize("container", CONTAINERS)
def test_folders_of_classes(tmp_path, container):
    files = {f"set/{c}/{at}.png": image_of(rows_of(1, at)) for c in ("cat", "dog") for at in (0, 1)}
    source = open_images(write_any(tmp_path, files, container))
    assert source.labels == ["cat", "cat", "dog", "dog"]
    assert [name for name, _, _ in contents(source)] == [*files]


@pytest.mark.parametrize("saved", ["splits", "one"])
@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_hugging_face_saved_to_disk(tmp_path, saved, prefix):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features({"image": datasets.Image(), "label": names})
    rows = [{"bytes": image_of(rows_of(1, at)), "path": None} for at in range(3)]
    part = datasets.Dataset.from_dict({"image": rows, "label": [0, 1, 0]}, features)
    whole = datasets.DatasetDict({"train": part}) if saved == "splits" else part
    whole.save_to_disk(tmp_path / "saved")
    source = open_images(f"{prefix}{tmp_path / 'saved'}")
    assert source.labels == ["cat", "dog", "cat"]
    assert source.description.startswith("data set saved: 3 ")
    contents(source)


PARTS = {
    "HAM10000": [name for name in shipped.ham10000() if name.endswith("jpg")],
    "Tiny-ImageNet's val": [f"val/images/val_{at}.JPEG" for at in range(3)],
    "Tiny-ImageNet's test": [f"images/test_{at}.JPEG" for at in range(3)],
    "ISIC": ["ISIC_2019_Training_Input/1.jpg", "ISIC_2019_Test_Input/1.jpg"],
    "parts": ["cat/1.jpg", "part-2/1.jpg"],
    "test among classes": ["cat/1.jpg", "dog/1.jpg", "test/1.jpg"],
    "one class": ["cat/1.jpg", "cat/2.jpg"],
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", PARTS)
def test_folders_that_are_hardly_classes_are_refused(tmp_path, name, container):
    path = write_any(tmp_path, dict.fromkeys(PARTS[name], b"x"), container)
    refuses(path, "--layout folders")
    insisted = open_images(path, layout="folders")
    assert None not in insisted.labels
    assert {*open_images(path, label_column="").labels} == {None}


def test_hub_library_cannot_bypass_the_folder_check(tmp_path):
    path = write_folder(tmp_path / "set", dict.fromkeys(PARTS["HAM10000"], b"x"))
    refuses(path, "--layout folders")
    with pytest.raises(ImageError, match="--layout folders"):
        open_images(f"hf:{path}")


def test_a_layout_by_name(tmp_path):
    path = write_folder(tmp_path / "set", {"a/1.png": b"x", "b/1.png": b"x"})
    assert open_images(path, layout="folders").labels == ["a", "b"]
    refuses(
        path, r"2 files ending in '.png'; expected data_batch_1 .*--layout cifar", layout="cifar"
    )
    with pytest.raises(ImageError, match="no layout 'cifar10'"):
        open_images(path, layout="cifar10")


def test_the_command_lists_the_layouts():
    from safle_images.cli import LAYOUT

    assert LAYOUT.endswith(f": {', '.join(LAYOUTS)}.")
