"""A door imports a public name when it is first used, and nothing else of its room."""

import subprocess
import sys

PROGRAM = """
import sys
from safle import DEFAULT_KIND, container, write_log
print(*[name for name in sys.modules if name.startswith(("safle.solver", "safle.site.air"))])
"""


def test_lazy_name_does_not_import_its_room():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
