"""A front door imports a name when it is asked for, and nothing else of its room."""

import subprocess
import sys

import pytest

import safle.site

PROGRAM = """
import sys
from safle.wire import container
from safle.encoders import DEFAULT_KIND
from safle.site import write_log
print(*[name for name in sys.modules if name.startswith(("safle.solver", "safle.site.air"))])
"""


def test_one_name_does_not_import_the_room():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_a_name_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match=r"'safle\.site' has no attribute 'nosuch'"):
        _ = safle.site.nosuch


def test_a_door_lists_its_names_before_any_is_imported():
    program = "import safle.site as door; print(door.__all__ == dir(door), *door.__all__)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", *sorted(safle.site.__all__)]
    assert "write_log" in safle.site.__all__
