"""How fast a long piece of work goes, and how long it will still take."""

from __future__ import annotations

import time
from collections import deque

WINDOW = 30.0
"""Seconds that the pace is taken over: the machine may be busier now than at first."""


class Pace:
    """Things done out of a total; its text names the pace and the time left."""

    def __init__(self, total: int, unit: str) -> None:
        self.total = total
        self._unit = unit
        self._times: deque[tuple[float, int]] = deque()

    def update(self, done: int) -> None:
        """So many are done; the first time, so many were before the work began."""
        now = time.monotonic()
        self._times.append((now, done))
        while len(self._times) > 2 and now - self._times[0][0] > WINDOW:
            self._times.popleft()

    @property
    def rate(self) -> float:
        """Things a second; 0 while it is unknown."""
        if len(self._times) < 2:
            return 0.0
        (start, before), (now, done) = self._times[0], self._times[-1]
        return (done - before) / max(now - start, 1e-9)

    def __str__(self) -> str:
        done = self._times[-1][1] if self._times else 0
        text = f"{done:,} of {self.total:,} {self._unit}"
        if self.rate <= 0:
            return text
        left = (self.total - done) / self.rate
        return f"{text}, {self.rate:,.0f} {self._unit}/s, {clock(left)} left"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
