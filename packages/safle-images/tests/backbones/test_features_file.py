"""Features files are written whole, with any class names."""

from pathlib import Path

import numpy as np
import pytest

from safle import open_table
from safle.errors import InvalidInput, TableError
from safle_images.backbones.features_file import write_features_file

FEATURES = np.arange(10, dtype="<f4").reshape(2, 5)


def write_named(path: Path, labels: list[str]) -> None:
    rows = [FEATURES[: len(labels)].tobytes()]
    write_features_file(path, rows, 5, names=[*map(str, range(len(labels)))], labels=labels)


def test_a_features_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    write_named(path, ["a", "b"])
    before = path.read_bytes()
    with pytest.raises(TableError, match="a class without a name"):
        write_named(path, [""])
    with pytest.raises(InvalidInput, match="labels"):
        write_features_file(path, [], 5, names=["1"], labels=["a", "b"])
    with pytest.raises(InvalidInput):
        write_features_file(path, [], 5, names=["1", "2"], labels=[1, "b"])
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.safetensors"]


@pytest.mark.parametrize(
    "names", [["a,b", "c"], [" a ", "b"], ['"', "[x]"], ["[", "]"], ['say "y"', "z"], ["a", "b"]]
)
def test_any_class_name_can_be_written(tmp_path: Path, names: list[str]) -> None:
    write_named(tmp_path / "t.safetensors", names)
    table = open_table(tmp_path / "t.safetensors")
    assert table.labels.tolist() == names
    assert np.array_equal(table.features, FEATURES)
