"""Short docstrings show an example without a heading: show it as code all the same."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class HeadlessExamples(griffe.Extension):
    """Fences what begins with ``>>>`` where no section says that examples follow."""

    def on_object(self, *, obj: griffe.Object, **_rest: Any) -> None:
        """Called once for everything that has been read."""
        if obj.docstring and not re.search(r"^Examples\n-+$", obj.docstring.value, re.MULTILINE):
            fenced = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = fenced
