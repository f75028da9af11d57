"""Tables that cannot be used: each says what was found and what to do."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from safle import open_table
from safle.errors import TableError
from support.tables import write_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FEATURES = np.arange(12.0, dtype=np.float32).reshape(4, 3)
LABELS = np.array([0, 1, 1, 0])
SUFFIXES = ["npz", "safetensors", "parquet", "csv"]


def refuses(path, match, **options):
    with pytest.raises(TableError, match=match) as caught:
        np.asarray(open_table(path, **options).features)
    assert str(path.parent) in str(caught.value)


def text(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_table_path_is_not_a_file(tmp_path, suffix):
    refuses(tmp_path / f"none.{suffix}", "no such file")
    (tmp_path / f"folder.{suffix}").mkdir()
    refuses(tmp_path / f"folder.{suffix}", "is a directory")
    (tmp_path / f"empty.{suffix}").touch()
    refuses(tmp_path / f"empty.{suffix}", "is empty")
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    refuses(tmp_path / f"pipe.{suffix}", "not a regular file")


def test_unknown_suffix(tmp_path):
    refuses(text(tmp_path, "x", "t.xlsx"), r"unknown file type.*\.npz, \.safetensors")
    refuses(text(tmp_path, "x", "t"), "unknown file type")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    features = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    labels = np.arange(50) % 3
    for suffix in ("npz", "safetensors", "csv"):
        write_table(folder / f"t.{suffix}", features, labels)
    columns = {f"f{at}": column for at, column in enumerate(features.T)}
    pq.write_table(pa.table({**columns, "label": labels}), folder / "t.parquet")
    return {suffix: (folder / f"t.{suffix}").read_bytes() for suffix in SUFFIXES}


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "parquet"])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_truncated_binary_files(tmp_path_factory, whole, suffix, share):
    data = whole[suffix]
    path = tmp_path_factory.getbasetemp() / f"cut.{suffix}"
    path.write_bytes(data[: int(share * len(data))])

    refuses(path, "again")


@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_truncated_csv_is_refused_or_whole_rows(tmp_path_factory, whole, share):
    data = whole["csv"]
    cut = data[: int(share * len(data))]
    path = tmp_path_factory.getbasetemp() / "cut.csv"
    path.write_bytes(cut)

    try:
        rows = len(open_table(path))
    except TableError:
        return
    # A cut inside a row loses its label, the last cell; labels here have one digit.
    assert rows == max(0, cut.decode().rstrip("\n").count("\n"))


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(noise=st.binary(min_size=1, max_size=200))
def test_noise_is_refused(tmp_path_factory, suffix, noise):
    path = tmp_path_factory.getbasetemp() / f"noise.{suffix}"
    path.write_bytes(noise)

    with contextlib.suppress(TableError):
        np.asarray(open_table(path).features)
        # Any line can be the header of a table without rows.
        assert suffix == "csv"


def test_python_objects_are_never_loaded(tmp_path):
    objects = np.array([["a", 1]], dtype=object)
    np.savez(tmp_path / "t.npz", features=objects)
    np.savez(tmp_path / "labels.npz", features=FEATURES, labels=np.array(["a"] * 4, dtype=object))

    for name in ("t.npz", "labels.npz"):
        refuses(tmp_path / name, "Python objects, which safle never loads")


def test_several_splits_must_be_chosen_from(tmp_path):
    arrays = {"train_features": FEATURES, "test_features": FEATURES, "train_labels": LABELS}
    np.savez(tmp_path / "t.npz", **arrays)
    save_file(arrays, tmp_path / "t.safetensors")

    for path in (tmp_path / "t.npz", tmp_path / "t.safetensors"):
        refuses(path, r"has the splits 'test', 'train'; say which with --split NAME")
        refuses(path, "no split 'val'; it has 'test', 'train'", split="val")
        assert open_table(path, split="test").labels is None


def test_arrays_of_other_names_are_listed(tmp_path):
    arrays = {"embedding": FEATURES, "target": LABELS}
    np.savez(tmp_path / "t.npz", **arrays)
    save_file(arrays, tmp_path / "t.safetensors")

    for path in (tmp_path / "t.npz", tmp_path / "t.safetensors"):
        refuses(path, "has 'embedding', 'target'; expected 'features'.*save the array")
        refuses(path, "no splits, only 'embedding', 'target'", split="train")


def test_options_of_other_formats_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", features=FEATURES)
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "t.parquet")

    refuses(tmp_path / "t.npz", "label_column='a' does not apply to .npz", label_column="a")
    refuses(tmp_path / "t.parquet", "split='a' does not apply", split="a")
    refuses(text(tmp_path, "a\n1\n"), "split='a' does not apply", split="a")


@pytest.mark.parametrize(
    ("features", "found"),
    [
        (FEATURES[0], r"shape \(3,\)"),
        (FEATURES[None], r"shape \(1, 4, 3\)"),
        (FEATURES[:, :0], r"shape \(4, 0\)"),
        (FEATURES.astype(str), "type <U"),
        (FEATURES.astype(complex), "type complex128"),
    ],
)
def test_features_must_be_a_numeric_matrix(tmp_path, features, found):
    np.savez(tmp_path / "t.npz", features=features)

    refuses(tmp_path / "t.npz", found)


def test_safetensors_shape_type_and_classes(tmp_path):
    path = tmp_path / "t.safetensors"
    save_file({"features": FEATURES[None]}, path)
    refuses(path, r"shape \(1, 4, 3\)")
    for classes in ("a,,b", "a,b,a", ""):
        save_file({"features": FEATURES, "labels": LABELS}, path, {"classes": classes})
        refuses(path, "different names separated by commas")
    save_file({"features": FEATURES, "labels": LABELS}, path, {"classes": "only"})
    refuses(
        path, "label at sample 1 is not a class; expected 0 to 0, as the metadata name 1 classes"
    )
    for names, found in ((b"[1]", "JSON list"), (b'["\\ud800"]', "JSON"), (b'["a"]', "names 1 s")):
        tensors = {"features": FEATURES, "sample_names": np.frombuffer(names, np.uint8)}
        save_file(tensors, path)
        refuses(path, found)
    header = b'{"features":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    refuses(path, "type BF16.*convert it")


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (LABELS[:3], "3 labels for 4 rows"),
        (np.arange(5), "5 labels for 4 rows"),
        (np.eye(4), r"shape \(4, 4\)"),
        (np.array([0.0, 1.5, 2.5, 3.0]), "label at sample 1 is not a whole.*not measurements"),
        (np.array([0.0, np.nan, 1.0, 2.0]), "label at sample 1"),
        (np.array([0.0, 1.0, np.inf, 2.0]), "label at sample 2"),
        (np.array([0.0, 1.0, 1e300, 2.0]), "label at sample 2"),
        (np.array([0, 1, 2, 2**64 - 1], np.uint64), "int64"),
        (np.array([1j] * 4), "complex128"),
        (np.array([b"\xff"] * 4), "not UTF-8"),
    ],
)
def test_labels_that_are_not_one_class_a_row(tmp_path, labels, found):
    np.savez(tmp_path / "t.npz", features=FEATURES, labels=labels)

    refuses(tmp_path / "t.npz", found)
    refuses(tmp_path / "t.npz", found, labels=labels)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, the header 2"),
        ("a,b\n1,2,3\n", "line 2 has 3 cells"),
        ("a,b,label\n1,2,x\n3,many,y\n", "line 3, column 'b' is not a number; expected one"),
        ("a,b\n1,\n", "line 2, column 'b' is not a number"),
        ('a,b,label\n1,2,"x\ny"\n3,?,z\n', "line 4, column 'b' is"),
        ("a,label\n1,x\n2,\n", "line 3 has no label"),
        ("a,label\n1," + "9" * 30 + "\n", "does not fit in 64 signed bits"),
        ("1.5,2.5\n3,4\n", "line 1 is all numbers; expected a header"),
        (",a\n0,1\n", r"column without a name.*index=False"),
        ("label\n1\n", "has only 'label'"),
        ("label,a,label\n1,2,3\n", "2 columns are called 'label'"),
        ("a,b,a,label\n1,2,3,x\n", "2 columns are called 'a'"),
        ('a,b\n1,"2\n', "line 2: unexpected end of data"),
        ("a;b\n1;2\n1,5;2.5\n", "',' in line 3 and '.' in line 3; expected one of them"),
        ("a,b\n1,NA\n", "column 'b' is not a number.*value is missing.*'safle schema'"),
        ("a,b\n1,2024-05-31\n", "looks like a date: turn it into an age"),
        ('a,b\n1,"2,5"\n', "looks like a decimal comma"),
        ("a,b\n1,5.1 mmol/l\n", "has a unit: take it out"),
        ("\n1\n", "column without a name"),
        ("a,label\n1,ä\n".encode("latin-1"), "line 2 is not UTF-8"),
    ],
)
def test_csv_that_cannot_be_used(tmp_path, content, found):
    refuses(text(tmp_path, content), found)


@pytest.mark.parametrize(
    ("columns", "options", "found"),
    [
        ({"a": [1.0, None]}, {}, "row 1, column 'a' has no value"),
        ({"a": ["x"]}, {}, "has 'a'; expected numeric columns"),
        ({"features": [[1.0, 2.0], [3.0]]}, {}, "row 1, column 'features' has 1 values"),
        ({"features": [[1.0, 2.0], [3.0, None]]}, {}, "row 1, column 'features' has no value"),
        ({"features": [[1.0], None]}, {}, "row 1, column 'features' has no value"),
        ({"features": [None, [1.0]]}, {}, "no first row"),
        ({"a": [1.0], "label": [None]}, {}, "row 0 has no label"),
        ({"a": [1.0], "label": [0.5]}, {}, "label at sample 0 is not a whole number"),
        ({"a": [1.0]}, {"label_column": "b"}, "no column 'b'; it has 'a'"),
    ],
)
def test_parquet_that_cannot_be_used(tmp_path, columns, options, found):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)

    refuses(path, found, **options)
