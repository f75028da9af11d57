"""A store, watched from outside."""

from __future__ import annotations

from pathlib import Path

from safle import Store
from safle.errors import SafleError


def count_members(folder: Path) -> int:
    """How many are in a store that may not have been made yet, or not to the end."""
    try:
        return len(Store.open(folder).members)
    except (SafleError, OSError):
        return 0
