"""Labels of tables: names from metadata, from text files, and from arrays of other types."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from safle.tables import open_table

FEATURES = np.arange(12.0, dtype=np.float32).reshape(4, 3)


def test_metadata_names_the_classes(tmp_path):
    path = tmp_path / "t.safetensors"
    arrays = {"features": FEATURES[:4], "labels": np.array([2, 0, 2, 0], np.uint8)}
    save_file(arrays, path, {"classes": "cat,dog, bird"})

    table = open_table(path)

    assert table.class_names == ("cat", "dog", "bird")
    assert table.labels.tolist() == ["bird", "cat", "bird", "cat"]


@pytest.mark.parametrize("suffix", ["txt", "csv"])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("3\n-1\n+07\n", [3, -1, 7]),
        ("3\r\n1\r\n2", [3, 1, 2]),
        ("a\nb\n3\n", ["a", "b", "3"]),
        ("\ufeffä\n1.5\n3\n", ["ä", "1.5", "3"]),
    ],
)
def test_labels_from_a_text_file(tmp_path, suffix, lines, expected):
    np.save(tmp_path / "features.npy", FEATURES[:3])
    (tmp_path / f"labels.{suffix}").write_bytes(lines.encode())

    table = open_table(tmp_path / "features.npy", labels=tmp_path / f"labels.{suffix}")

    assert table.labels.tolist() == expected


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
