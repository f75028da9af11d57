"""Refuse what cannot fit before it is allocated, with the arithmetic and advice."""

from __future__ import annotations

import psutil

from safle.errors import NotEnoughMemory


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


def require(size: int, *, purpose: str, advice: str) -> None:
    """Raise `NotEnoughMemory` if ``size`` bytes are more than this machine has free."""
    available = psutil.virtual_memory().available
    if size > available:
        raise NotEnoughMemory(
            f"{purpose} needs {readable(size)}, {readable(available)} are available; {advice}"
        )
