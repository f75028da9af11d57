"""Tables: every format gives the same table, whole, sliced and in batches of any size."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from safle import Table, as_features, open_table
from safle.errors import InvalidInput
from support.tables import write_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# More rows than a row group of the Parquet files.
ROWS = 2500
FEATURES = np.random.default_rng(0).normal(size=(ROWS, 5)).astype(np.float32)
NUMBERS = np.random.default_rng(1).integers(-2, 7, ROWS)
NAMES = np.array(["cat", "dog, small", "Übel", "x y"])[NUMBERS % 4]
FORMATS = ["npz", "safetensors", "csv", "parquet", "list.parquet", "fixed.parquet"]


def written(folder, kind, features, labels):
    """The table as a file of one kind, and the arguments that open it."""
    path = folder / f"table.{kind}"
    if kind.endswith("parquet"):
        pq.write_table(arrow_table(kind, features, labels), path, row_group_size=700)
        return path, {}
    write_table(path, features, labels)
    return path, {}


def arrow_table(kind, features, labels):
    label = pa.array(labels.tolist())
    if kind == "parquet":
        columns = {f"f{at}": column for at, column in enumerate(features.T)}
        return pa.table({**columns, "label": label, "comment": ["-"] * len(labels)})
    value = pa.from_numpy_dtype(features.dtype)
    size = features.shape[1] if kind == "fixed.parquet" else -1
    return pa.table(
        {"features": pa.array(features.tolist(), pa.list_(value, size)), "label": label}
    )


def plain_names(kind, labels):
    # A safetensors file keeps class names in one comma-separated list.
    return np.strings.replace(labels, ",", ";") if kind == "safetensors" else labels


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_table(tmp_path, kind):
    path, options = written(tmp_path, kind, FEATURES, NUMBERS)

    table = open_table(path, **options)

    assert len(table) == ROWS
    assert table.feature_dim == 5
    assert table.features.shape == (ROWS, 5)
    assert np.array_equal(np.asarray(table.features), FEATURES)
    assert table.labels.dtype == np.int64
    assert np.array_equal(table.labels, NUMBERS)
    assert table.class_names is None


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_keeps_names(tmp_path, kind):
    names = plain_names(kind, NAMES)
    path, options = written(tmp_path, kind, FEATURES, names)

    labels = open_table(path, **options).labels

    assert labels.dtype.kind == "U"
    assert np.array_equal(labels, names)


@given(size=st.one_of(st.integers(300, 2 * ROWS), st.sampled_from([17, ROWS - 1, ROWS, ROWS + 1])))
def test_batches_of_any_size_are_the_whole(size):
    batches = list(Table(FEATURES, NUMBERS).batches(size))

    lengths = [len(features) for features, _ in batches]
    assert lengths == [min(size, ROWS - start) for start in range(0, ROWS, size)]
    assert np.array_equal(np.concatenate([features for features, _ in batches]), FEATURES)
    assert np.array_equal(np.concatenate([labels for _, labels in batches]), NUMBERS)
    assert all(features.flags.c_contiguous for features, _ in batches)
    with pytest.raises(InvalidInput, match="at least 1"):
        next(Table(FEATURES).batches(0))


@pytest.mark.parametrize("kind", ["npz", "safetensors", "csv", "parquet", "fixed.parquet"])
def test_a_table_may_have_no_rows(tmp_path, kind):
    path, options = written(tmp_path, kind, FEATURES[:0], NUMBERS[:0])

    if kind.endswith("parquet"):
        nothing = arrow_table(kind, FEATURES[:1], NUMBERS[:1]).slice(0, 0)
        pq.write_table(nothing, path)
    table = open_table(path, **options)

    assert np.asarray(table.features).shape == (0, 5)
    assert table.labels.shape == (0,)
    assert list(table.batches(10)) == []


@pytest.mark.parametrize("kind", ["npz", "safetensors", "csv"])
def test_labels_are_optional(tmp_path, kind):
    path = tmp_path / f"table.{kind}"
    write_table(path, FEATURES)

    table = open_table(path)

    assert table.labels is None
    assert np.array_equal(table.features, FEATURES)
    assert all(labels is None for _, labels in table.batches(999))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i4", "u8", "?", ">f4"])
@pytest.mark.parametrize("kind", ["npz", "safetensors", "csv", "fixed.parquet"])
def test_every_number_type_keeps_its_values(tmp_path, kind, dtype):
    features = np.random.default_rng(2).integers(0, 2, (9, 3)).astype(dtype)
    source = features.astype(features.dtype.newbyteorder("=")) if "parquet" in kind else features
    path, options = written(tmp_path, kind, source, np.arange(9))

    ((batch, labels),) = open_table(path, **options).batches(100)

    assert type(batch) is type(labels) is np.ndarray
    assert np.array_equal(batch, features)
    assert batch.dtype == (np.float64 if kind == "csv" else features.dtype.newbyteorder("="))


def test_a_tensor_may_begin_at_any_byte(tmp_path):
    size = FEATURES.nbytes
    header = f'{{"features":{{"dtype":"F32","shape":[{ROWS},5],"data_offsets":[0,{size}]}}}}'
    header += " " * (len(header) % 4 == 0)
    data = len(header).to_bytes(8, "little") + header.encode() + FEATURES.tobytes()
    (tmp_path / "t.safetensors").write_bytes(data)

    table = open_table(tmp_path / "t.safetensors")

    assert np.array_equal(table.features, FEATURES)
    assert not table.features.flags.aligned
    assert all(batch.flags.aligned for batch, _ in table.batches(999))
    assert as_features(table.features).flags.aligned


def test_the_only_split_is_found(tmp_path):
    arrays = {"val_features": FEATURES, "val_labels": NUMBERS}
    np.savez(tmp_path / "t.npz", **arrays)
    save_file(arrays, tmp_path / "t.safetensors")

    for kind in ("npz", "safetensors"):
        table = open_table(tmp_path / f"t.{kind}")
        assert np.array_equal(table.features[:], FEATURES)
        assert np.array_equal(table.labels, NUMBERS)


def test_split_selects(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(
        path,
        train_features=FEATURES,
        train_labels=NUMBERS,
        test_features=FEATURES[:9],
        test_labels=NUMBERS[:9],
    )

    assert len(open_table(path, split="train")) == ROWS
    assert open_table(path, split="test").labels.tolist() == NUMBERS[:9].tolist()


@pytest.mark.parametrize("text", ["a,b,label\n1,2,x\n3,4,y\n", "\ufeffa,label,b\r\n1,x,2\r\n3,y,4"])
def test_csv_as_other_programs_write_it(tmp_path, text):
    (tmp_path / "t.CSV").write_bytes(text.encode() + b"\n\n")

    table = open_table(tmp_path / "t.CSV")

    assert table.features[:].tolist() == [[1, 2], [3, 4]]
    assert table.labels.tolist() == ["x", "y"]


def test_the_label_column_may_have_another_name(tmp_path):
    (tmp_path / "t.csv").write_text('0,1,kind\n1,2,"a,\nb"\n3,4,c\n')
    pq.write_table(
        pa.table({"0": [1, 3], "1": [2.0, 4.0], "kind": ["a", "c"]}), tmp_path / "t.parquet"
    )

    csv_table = open_table(tmp_path / "t.csv", label_column="kind")
    parquet_table = open_table(tmp_path / "t.parquet", label_column="kind")

    assert csv_table.labels.tolist() == ["a,\nb", "c"]
    assert parquet_table.labels.tolist() == ["a", "c"]
    assert np.array_equal(csv_table.features[:], parquet_table.features[:])


def test_parquet_leaves_out_the_row_numbers_of_pandas_and_decodes_categories(tmp_path):
    columns = {"a": [1.5, 2.5], "__index_level_0__": [0, 1]}
    labels = pa.array(["x", "y"]).dictionary_encode()
    pq.write_table(pa.table({**columns, "label": labels}), tmp_path / "t.parquet")

    table = open_table(tmp_path / "t.parquet")

    assert table.features[:].tolist() == [[1.5], [2.5]]
    assert table.labels.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    "names", [["a,b", "c"], [" a ", "b"], ['"', "[x]"], ["[", "]"], ['say "y"', "z"], ["a", "b"]]
)
def test_a_json_list_of_metadata_names_any_classes(tmp_path, names):
    arrays = {"features": FEATURES[:2], "labels": np.array([0, 1])}
    save_file(arrays, tmp_path / "t.safetensors", {"classes": json.dumps(names)})
    assert open_table(tmp_path / "t.safetensors").labels.tolist() == names


def test_metadata_names_the_classes(tmp_path):
    path = tmp_path / "t.safetensors"
    arrays = {"features": FEATURES[:4], "labels": np.array([2, 0, 2, 0], np.uint8)}
    save_file(arrays, path, {"classes": "cat,dog, bird"})

    table = open_table(path)

    assert table.class_names == ("cat", "dog", "bird")
    assert table.labels.tolist() == ["bird", "cat", "bird", "cat"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("3\n-1\n+07\n", [3, -1, 7]),
        ("3\r\n1\r\n2", [3, 1, 2]),
        ("a\nb\n3\n", ["a", "b", "3"]),
        ("ä\n1.5\n3\n", ["ä", "1.5", "3"]),
    ],
)
def test_labels_of_csv_are_integers_or_all_texts(tmp_path, lines, expected):
    rows = "".join(f"0,{line}" for line in lines.splitlines(keepends=True))
    (tmp_path / "t.csv").write_text(f"a,label\n{rows}")

    assert open_table(tmp_path / "t.csv").labels.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([True, False]), [1, 0]),
        (np.array([3.0, -1.0]), [3, -1]),
        (np.array([[3], [1]], np.int8), [3, 1]),
        (np.array([b"a", "ä".encode()]), ["a", "ä"]),
    ],
)
def test_labels_of_other_types_become_integers_or_strings(tmp_path, labels, expected):
    np.savez(tmp_path / "t.npz", features=FEATURES[:2], labels=labels)

    found = open_table(tmp_path / "t.npz").labels

    assert found.tolist() == expected
    assert found.dtype == np.int64 or found.dtype.kind == "U"
