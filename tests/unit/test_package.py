"""The package as it is imported: light, and every public name there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import safle


def test_every_public_name_can_be_imported():
    for name in safle.__all__:
        assert getattr(safle, name) is not None
    assert set(safle.__all__) <= set(dir(safle))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = safle.nothing


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import safle", ["numpy", "numba", "scipy", "sklearn", "torch", "rich_click"]),
        (
            "from safle import EmbeddingEncoder, count, solve, Model, write_statistics",
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
