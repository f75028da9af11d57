"""What commands write replaces nobody's data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TABLE = "age,dose,sex,label\n61,2,0,ill\n43,1,1,well\n"
OUTPUTS = {
    "card.md": ("card", "m.safetensors", "--mode", "plain", "-o"),
    "p.csv": ("predict", "m.safetensors", "ward.csv", "--proba", "-o"),
    "ridge.csv": ("solve", "w.stats", "--encoder", "e.safetensors", "-o", "n.st", "--curve"),
    "figures.json": ("evaluate", "m.safetensors", "ward.csv", "--json"),
    "page.html": ("evaluate", "m.safetensors", "ward.csv", "--html"),
    "schema.toml": ("schema", "draft", "ward.csv", "--least", "1", "-o"),
    "model.onnx": ("export", "m.safetensors", "-o"),
    "other.safetensors": ("encoder", "make", "--range", "0", "1", "--features", "3", "-o"),
}
"""Name -> the command that writes such a file."""
THEIRS = b"of somebody else"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("overwriting")


@pytest.fixture
def ward(folder: Path, monkeypatch: pytest.MonkeyPatch, safle: Callable[..., str]) -> Path:
    monkeypatch.chdir(folder)
    if not (folder / "m.safetensors").exists():
        (folder / "ward.csv").write_text(TABLE)
        made = ("--encoder", "e.safetensors")
        safle("encoder", "make", "--sample", "ward.csv", "--kind", "linear", "-o", made[1])
        safle("count", "ward.csv", *made, "-o", "w.stats")
        safle("solve", "w.stats", *made, "-o", "m.safetensors")
    return folder


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_replaced_only_by_force(
    ward: Path, safle: Callable[..., str], name: str
) -> None:
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    write, place = OUTPUTS[name], ward / name
    # An empty file is somebody's, too.
    for content in (THEIRS, b""):
        place.write_bytes(content)
        assert f"{name} exists: choose another name" in safle(*write, name, code=2)
        assert place.read_bytes() == content
    safle(*write, name, "--force")
    ours = place.read_bytes()
    assert ours
    assert "overwrite it with --force" in safle(*write, name, code=2)
    assert place.read_bytes() == ours


def test_force_replaces_no_input_and_no_key(ward: Path, safle: Callable[..., str]) -> None:
    said = safle(*OUTPUTS["p.csv"], "ward.csv", "--force", code=2)
    assert "ward.csv would overwrite an input" in said
    pytest.importorskip("cryptography")
    safle("private", "keys", "a", "-o", "a.key")
    key = (ward / "a.key").read_bytes()
    for words in ([], ["--force"]):
        safle("private", "keys", "a", "-o", "a.key", *words, code=2)
    assert (ward / "a.key").read_bytes() == key


@pytest.mark.parametrize("name", ["new.st", "./new.st", "link/new.st"])
def test_outputs_may_not_be_the_same_file(ward: Path, safle: Callable[..., str], name: str) -> None:
    if not (ward / "link").exists():
        (ward / "link").symlink_to(ward)
    said = safle(*OUTPUTS["ridge.csv"][:-2], "new.st", "--curve", name, code=2)
    assert "would overwrite an input, or another output" in said
    assert not (ward / "new.st").exists()


def test_a_backbone_is_an_input(ward: Path, safle: Callable[..., str]) -> None:
    (ward / "backbone.onnx").write_bytes(b"somebody's weights")
    joined = ("--with-backbone", "backbone.onnx", "--force", "-o", "./backbone.onnx")
    said = safle("export", "m.safetensors", *joined, code=2)
    assert "would overwrite an input" in said


def test_a_sum_in_the_folder_of_its_files_is_not_added_up(
    ward: Path, safle: Callable[..., str]
) -> None:
    (ward / "clients").mkdir()
    (ward / "clients" / "w.stats").write_bytes((ward / "w.stats").read_bytes())
    total = ward / "clients" / "total.stats"
    safle("sum", "clients", "-o", total)
    before = total.read_bytes()
    for files in (["clients"], ["clients/total.stats", "w.stats"]):
        said = safle("sum", *files, "-o", total, "--force", code=1)
        assert "one of the files that are added up" in said
    assert total.read_bytes() == before
