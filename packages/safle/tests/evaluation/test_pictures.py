"""Pictures are drawn for any number of classes and clients, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from safle.errors import InvalidInput, MissingExtra
from safle.evaluation import pictures
from safle.solver import RidgeCurve

pytest.importorskip("matplotlib")


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and len(path.read_bytes()) > 5_000


@pytest.mark.parametrize("criterion", ["gcv", "evidence"])
def test_ridge_curve(tmp_path: Path, criterion: str) -> None:
    ridges = 2.0 ** np.arange(-10, 10)
    scores = np.abs(np.arange(-10.0, 10)) - (criterion == "evidence") + 0.1
    scores[0] = np.inf
    pictures.ridge_curve(
        RidgeCurve(criterion, ridges, scores, 100 / (1 + ridges), 0 * ridges),
        tmp_path / "curve.png",
    )
    assert is_png(tmp_path / "curve.png")


@pytest.mark.parametrize("classes", [1, 10, 45])
def test_confusion(tmp_path: Path, classes: int) -> None:
    names = [f"a class with quite a long name {at}" for at in range(classes)]
    pictures.confusion(np.eye(classes, dtype=int) * 7, names, tmp_path / "matrix.png")
    assert is_png(tmp_path / "matrix.png")


def test_wrong_shapes_draw_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        pictures.confusion(np.eye(3), ["a"], tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


def test_missing_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"safle\[plots\]"):
        pictures.require_matplotlib()


@pytest.mark.parametrize("name", [r"$\frac{$", "$", "a$b$c", r"\$x$", "_hidden", "two\nlines"])
def test_names_are_shown_as_they_are_and_never_read_as_formulas(tmp_path: Path, name: str) -> None:
    names = [name, "other"]

    pictures.confusion(np.eye(2, dtype=int), names, tmp_path / "matrix.png")
    figure, axes = pictures.new_figure(4, 3)
    legend = axes.legend(*pictures.stack_bars(axes, np.eye(2), names))

    assert is_png(tmp_path / "matrix.png")
    figure.canvas.draw()
    text = legend.get_texts()[0]
    drawn, is_formula = text._preprocess_math(text.get_text())
    assert (drawn, is_formula) == (name.replace("\n", "�"), False)
