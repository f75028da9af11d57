"""Docstrings as the site shows them: two habits of the sources, put in the words of its reader."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n(?:.+\n?|\n(?!\S+\n-+))*", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, ]*) : (.*)$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Changes what the parser reads, not the sources."""

    def on_object(self, *, obj: griffe.Object, **_rest: Any) -> None:
        """Called once for everything that has been read."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        # A short docstring shows an example without a heading: it is code all the same.
        if not re.search(r"^Examples\n-+$", text, re.MULTILINE):
            text = EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)
        # "name : what it is": a description, where the parser would take it for a type.
        entries = lambda found: ENTRY.sub(r"\1\n    \2", found[0])  # noqa: E731
        obj.docstring.value = SECTION.sub(entries, text)
