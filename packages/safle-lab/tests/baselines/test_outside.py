"""Methods from outside: a file is measured beside the others, and what is wrong with it is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from safle.errors import SettingsError
from safle_lab.baselines import METHODS, Task, add_method
from safle_lab.baselines.base import MethodError

PAGE = Path(__file__).parents[4] / "docs/experiments.md"
SETTINGS = """
[federation]
clients = 5
seeds = 1
[table1]
methods = ["afl"]
scenarios = ["iid"]
"""


@pytest.fixture(autouse=True)
def _forget():
    """What one test adds is not there in the next."""
    yield
    for name in [name for name, method in METHODS.items() if method.program]:
        del METHODS[name]


@pytest.fixture
def shown(tmp_path) -> Path:
    """The file that the page on experiments shows."""
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    path = tmp_path / "nearest_mean.py"
    path.write_text(next(block for block in found if "METHOD = " in block))
    return path


def test_a_file_is_a_method_like_any_other(shown, blobs):
    task = Task(*blobs, [np.arange(300), np.arange(300, 600)], 4, watched=blobs)

    result = add_method(shown)(task, shrinkage=0.1)

    assert METHODS["nearest-mean"].program
    assert result.curve[0].accuracy > 0.7
    assert result.curve[0].bytes_per_client == result.bytes_up + result.bytes_down
    with pytest.raises(SettingsError, match="shrinkage is 'no'; expected a number"):
        METHODS["nearest-mean"](task, shrinkage="no")


def test_the_command_measures_it_beside_the_others_and_again_when_it_changes(
    shown, tmp_path, safle
):
    (tmp_path / "my.toml").write_text(SETTINGS)
    out = tmp_path / "out"
    words = ("experiment", "table1", "--settings", tmp_path / "my.toml", "--out", out)

    def measured() -> int:
        safle(*words, "--method", shown)
        return len(list((out / "cells").glob("*.json")))

    first = measured()
    result = json.loads((out / "table1.json").read_text())
    assert [line["method"] for line in result["summary"]] == ["AFL", "Nearest mean"]
    assert result["programs"] == {"nearest-mean": METHODS["nearest-mean"].program}
    assert measured() == first
    shown.write_text(shown.read_text() + "\n# changed\n")
    del METHODS["nearest-mean"]
    # Its two candidates and the choice.
    assert measured() == first + 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "METHOD is NoneType; expected METHOD = "),
        ("METHOD = 3", "METHOD is int; expected METHOD = "),
        ("import nothing_of_this_name", r"mine\.py, line 1: ModuleNotFoundError"),
        ("METHOD = (", r"mine\.py, line 1: SyntaxError"),
    ],
)
def test_a_file_without_a_method_is_refused(tmp_path, text, complaint):
    (tmp_path / "mine.py").write_text(text)

    with pytest.raises(MethodError, match=complaint):
        add_method(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("raise KeyError(3)", r", line \d+: KeyError: 3$"),
        ("return 3", ": its method gives int"),
    ],
)
def test_errors_and_results_of_its_own_are_named(shown, blobs, line, complaint):
    shown.write_text(re.sub(r"    return Result.*", f"    {line}", shown.read_text()))

    with pytest.raises(MethodError, match=f"nearest_mean.py{complaint}"):
        add_method(shown)(Task(*blobs, [np.arange(600)], 4))


def test_an_error_of_its_model_is_its_own_too(shown, tmp_path, safle):
    """The model is asked by the experiment, when the method has long given its result."""
    shown.write_text(
        re.sub(r"(def decision_function.*:\n)", r"\1        1 / 0\n", shown.read_text())
    )
    (tmp_path / "my.toml").write_text(SETTINGS)
    words = ("experiment", "table1", "--settings", tmp_path / "my.toml", "--out", tmp_path / "out")
    said = safle(*words, "--method", shown, code=1)
    assert re.search(r"nearest_mean\.py, line \d+: ZeroDivisionError: division by zero", said)
    assert "unexpected" not in said


def test_the_name_of_another_method_is_refused(shown):
    shown.write_text(shown.read_text().replace('"nearest-mean"', '"afl"'))

    with pytest.raises(SettingsError, match="there is another method 'afl'"):
        add_method(shown)
