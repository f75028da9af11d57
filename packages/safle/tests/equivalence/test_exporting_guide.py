"""The code of docs/exporting.md works as pasted, and every block prints the same classes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[4] / "docs" / "exporting.md"


def test_the_guide(tmp_path):
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package)
    found = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    # The one of images runs in safle-images' test_joined_export.py.
    blocks = [block for block in found if "load_digits" in block]
    assert len(blocks) == len(found) - 1
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    shown = [
        subprocess.run(
            [sys.executable, "-c", block],
            cwd=tmp_path,
            env=one_thread,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for block in blocks
    ]
    assert len(shown) == 2
    assert shown[0] == shown[1]
