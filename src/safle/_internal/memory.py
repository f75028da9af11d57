"""Refuse what cannot fit before it is allocated, with the arithmetic and advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import psutil
from numpy.typing import DTypeLike, NDArray

from safle.errors import NotEnoughMemory


def readable(size: float) -> str:
    """A byte count for people: 1.5 GB."""
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


class Scratch:
    """Memory that is handed out again and again, for large arrays that come one by one.

    The first touch of fresh memory can cost as much as the work done in it. What was
    taken before is overwritten by what is taken next.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def take(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """An array of ``count`` entries that hold anything."""
        size = count * np.dtype(dtype).itemsize
        if size > len(self._bytes):
            # Given back first: the old and the new need never be held together.
            self._bytes = np.empty(0, np.uint8)
            self._bytes = np.empty(size, np.uint8)
        return self._bytes[:size].view(dtype)
