"""The package as it is imported: light, and every public name there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import getdoc, isclass
from pkgutil import walk_packages

import pytest

import safle


def test_every_public_name_can_be_imported():
    for name in safle.__all__:
        assert getattr(safle, name) is not None
    assert set(safle.__all__) <= set(dir(safle))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = safle.nothing


EXPORTED = {
    f"{package}.{name}": (module, value)
    for package in ("safle", *(found.name for found in walk_packages(safle.__path__, "safle.")))
    if find_spec(package).submodule_search_locations and ".cli" not in package
    for module in [import_module(package)]
    for name in getattr(module, "__all__", ())
    if callable(value := getattr(module, name))
}


def examples_of(value):
    """The examples of a function, or of a class and its methods."""
    inside = vars(value).values() if isclass(value) else ()
    return [text for one in (value, *inside) if ">>>" in (text := getdoc(one) or "")]


@pytest.mark.parametrize("name", EXPORTED)
def test_what_a_room_exports_is_shown_by_an_example_that_runs(name):
    """By one of its own, or by one of the whole room."""
    room, value = EXPORTED[name]
    lines = re.findall(r"^(?:>>>|\.\.\.) .*", getdoc(room) or "", re.MULTILINE)
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
