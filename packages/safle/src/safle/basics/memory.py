"""Refuse what needs more memory than is free or allowed, before it is allocated."""

from __future__ import annotations

import os
import re

from safle.errors import NotEnoughMemory, SettingsError

MAX_MEMORY = 1 << 31
"""Bytes that reading a file may take, unless the caller allows more."""
VARIABLE = "SAFLE_MOST_MEMORY"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def readable(size: float) -> str:
    """A byte count for people.

    >>> readable(1_500_000_000)
    '1.5 GB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def require_free_memory(size: int, *, purpose: str, advice: str) -> None:
    """Raise `NotEnoughMemory` if ``size`` bytes are more than this machine has free."""
    # Imported here: ``--help`` does not need it.
    import psutil

    available = psutil.virtual_memory().available
    if size > available:
        raise NotEnoughMemory(
            f"{purpose} needs {readable(size)}, {readable(available)} are available; {advice}"
        )


def most_memory(allowed: int | None = None) -> int:
    """Bytes that reading a file may take: ``allowed``, or $SAFLE_MOST_MEMORY, or 2 GB.

    >>> readable(most_memory(allowed=3_000_000))
    '3.0 MB'
    """
    if allowed is not None:
        return allowed
    text = os.environ.get(VARIABLE)
    if text is None:
        return MAX_MEMORY
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?) ?([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise SettingsError(f"{VARIABLE} is {text[:40]!r}; expected a size like 8GB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def over_limit(size: int, limit: int) -> str:
    """The end of a message: a size, the limit that it exceeds, and what to do."""
    return (
        f"{readable(size)}; the limit is {readable(limit)}: if you trust who made the file, allow "
        f"more with {VARIABLE}=8GB (limit= in Python)"
    )
