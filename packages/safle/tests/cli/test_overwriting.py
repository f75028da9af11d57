"""What commands write for others replaces nobody's data: a table has the ending of predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from safle.cli.inspect import MARKS, looks_like

TABLE = "age,dose,sex,label\n61,2,0,ill\n43,1,1,well\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ward.csv", "other.csv"):
        (tmp_path / name).write_text(TABLE)
    return tmp_path


def test_files_of_others_are_replaced_only_by_force(
    folder: Path, safle: Callable[..., str]
) -> None:
    make = ("encoder", "make", "--sample", "ward.csv", "--kind", "linear", "-o", "e.safetensors")
    solve = ("solve", "ward.stats", "--encoder", "e.safetensors", "-o", "m.safetensors")
    predict = ("predict", "m.safetensors", "ward.csv", "-o")
    card = ("card", "m.safetensors", "--mode", "plain", "-o")
    safle(*make)
    safle("count", "ward.csv", "--encoder", "e.safetensors", "-o", "ward.stats")
    # Their own files are replaced: whoever runs a guide twice is not stopped.
    for _ in range(2):
        safle(*solve, "--curve", "ridge.csv")
        safle(*predict, "p.csv", "--proba")
        safle(*card, "card.md")
    for words in ((*card,), (*predict,), (*solve, "--curve")):
        said = safle(*words, "other.csv", code=2)
        assert "other.csv is there, and is no file of this kind" in said
    (folder / "README.md").write_text("# Our project\n")
    assert "README.md is there, and is no file of" in safle(*card, "README.md", code=2)
    assert (folder / "README.md").read_text() == "# Our project\n"
    assert (folder / "other.csv").read_text() == TABLE
    safle(*card, "other.csv", "--force")
    assert (folder / "other.csv").read_text().startswith("# ")


@pytest.mark.parametrize("ending", sorted(MARKS))
def test_an_ending_alone_does_not_make_a_file_ours(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"theirs{ending}"
    path.write_bytes(b'{"model": "a car"} <html> \x89PNG notes of somebody else')
    assert not looks_like(path, [ending])
