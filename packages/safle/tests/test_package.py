"""The package as it is imported: light, and every public name there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from inspect import getdoc, isclass, isfunction

import pytest

import safle
from safle import basics


def test_every_public_name_can_be_imported():
    for name in safle.__all__:
        assert getattr(safle, name) is not None
    assert set(safle.__all__) <= set(dir(safle))
    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = safle.nothing


EXPORTED = {
    f"{door.__name__}.{name}": value
    for door in (safle, basics)
    for name in door.__all__
    if isclass(value := getattr(door, name)) or isfunction(value)
}


def room_of(value):
    return import_module(".".join(value.__module__.split(".")[:2]))


def examples_of(value):
    """The examples of a function, or of a class and its methods."""
    inside = vars(value).values() if isclass(value) else ()
    return [text for one in (value, *inside) if ">>>" in (text := getdoc(one) or "")]


@pytest.mark.parametrize("name", EXPORTED)
def test_every_public_name_is_shown_by_an_example_that_runs(name):
    """By one of its own, or by one of its room."""
    value = EXPORTED[name]
    lines = re.findall(r"^(?:>>>|\.\.\.) .*", getdoc(room_of(value)) or "", re.MULTILINE)
    assert examples_of(value) or value.__name__ in re.findall(r"\w+", "\n".join(lines))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import safle", ["numpy", "scipy", "sklearn", "torch", "rich_click"]),
        (
            "from safle import EmbeddingEncoder, count, solve, Model, write",
            ["torch", "flwr", "onnx", "onnxruntime", "matplotlib", "sklearn", "pandas"],
        ),
    ],
)
def test_heavy_packages_are_imported_where_they_are_used(statement, absent):
    program = (
        f"{statement}\nimport sys\nprint([name for name in {absent!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
