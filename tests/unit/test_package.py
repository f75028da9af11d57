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


def test_statistics_are_saved_and_loaded_by_whoever_has_one_room_alone(tmp_path):
    """The sums know nothing of their bytes' room, and still find it."""
    program = (
        "import sys\n"
        "from safle.encoders.calibration import DeclaredRange\n"
        "from safle.encoders import LinearEncoder\n"
        "from safle.statistics import Statistics, count\n"
        "assert 'safle.wire' not in sys.modules\n"
        "encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))\n"
        "sent = count(encoder, [[0.2], [0.7]], ['ill', 'well'])\n"
        "sent.save('a.stats')\n"
        "print(Statistics.load('a.stats', made=encoder) == sent)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
