"""How fast a long piece of work goes, and how long it will still take."""

import time
from collections import deque

WINDOW = 30.0
"""Seconds that the pace is taken over: the machine may be busier now than at first."""


class Pace:
    """What is done of a total; its text names the pace and the time left.

    With a ``unit`` it counts things, without one it is a share.
    """

    def __init__(self, total: float = 1.0, unit: str = "") -> None:
        self.total = total
        self._unit = unit
        self._times: deque[tuple[float, float]] = deque()

    def update(self, done: float) -> None:
        """So much is done; the first time, so much was before the work began."""
        now = time.monotonic()
        self._times.append((now, done))
        while len(self._times) > 2 and now - self._times[0][0] > WINDOW:
            self._times.popleft()

    @property
    def rate(self) -> float:
        """How much a second; 0 while it is unknown."""
        if len(self._times) < 2:
            return 0.0
        (start, before), (now, done) = self._times[0], self._times[-1]
        return (done - before) / max(now - start, 1e-9)

    def __str__(self) -> str:
        done = self._times[-1][1] if self._times else 0
        text, pace = f"{done / max(self.total, 1):.0%}", ""
        if self._unit:
            text = f"{done:,} of {self.total:,} {self._unit}"
            pace = f", {self.rate:,.0f} {self._unit}/s"
        return f"{text}{pace}, {self._left(done)} left" if self.rate > 0 else text

    def _left(self, done: float) -> str:
        """Hours, minutes and seconds."""
        minutes, seconds = divmod(round((self.total - done) / self.rate), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
