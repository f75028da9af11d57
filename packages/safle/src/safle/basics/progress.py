"""Progress: whoever works calls it with the finished share, 0 to 1."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]


def no_progress(_share: float) -> None:
    """Report nothing."""
