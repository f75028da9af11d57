"""A `Progress` is a callback: long work calls it with the share that is finished, 0 to 1."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]


def no_progress(_share: float) -> None:
    """Report nothing."""
