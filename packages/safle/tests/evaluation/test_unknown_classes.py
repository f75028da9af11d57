"""``safle evaluate`` on labels that the model does not know, as folders give them by mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import safle


@pytest.fixture
def model(tmp_path: Path) -> Path:
    features = [[0.1], [0.2], [0.8], [0.9]]
    fitted = safle.SafleClassifier().fit(features, ["cat", "cat", "dog", "dog"])
    fitted.model_.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def table(folder: Path, *labels: str) -> Path:
    rows = [f"0.{at + 1},{label}" for at, label in enumerate(labels)]
    (folder / "test.csv").write_text("\n".join(["x,label", *rows]) + "\n")
    return folder / "test.csv"


@pytest.mark.parametrize("labels", [("images",), ("part_1", "part_2"), ("3", "4")])
def test_evaluate_refuses_a_table_without_known_classes(
    model: Path, tmp_path: Path, safle: Callable[..., str], labels: tuple[str, ...]
) -> None:
    path = table(tmp_path, *labels)
    shown = safle("evaluate", model, path, "--json", tmp_path / "f.json", code=1)
    assert "has only classes that the model does not know" in " ".join(shown.split())
    assert "the model knows 'cat', 'dog'" in " ".join(shown.split())
    assert "accuracy" not in shown
    assert not (tmp_path / "f.json").exists()


def test_evaluate_names_unknown_classes_before_the_figures(
    model: Path, tmp_path: Path, safle: Callable[..., str]
) -> None:
    path = table(tmp_path, "cat", "images", "dog", "images")
    shown = " ".join(safle("evaluate", model, path).split())
    said = "2 of 4 samples are of classes that the model does not know, and count as errors"
    assert f"{said}: 'images'; the model knows 'cat', 'dog'" in shown
    figures = " ".join(safle("evaluate", model, table(tmp_path, "cat", "dog")).split())
    assert "does not know" not in figures
