"""CSV cells that a spreadsheet shows instead of running."""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")
_LIVE = re.compile(r"['=+\-@\t\r\n]")


def neutralise(cell: T) -> T | str:
    """A text that a spreadsheet would read as a formula, with an apostrophe in front.

    The apostrophe itself counts as such a character, so that taking one away gives every
    name back. Numbers stay numbers.

    >>> [neutralise(cell) for cell in ("=1+1", "'quoted", "plain", -1)]
    ["'=1+1", "''quoted", 'plain', -1]
    """
    return f"'{cell}" if isinstance(cell, str) and _LIVE.match(cell) else cell
