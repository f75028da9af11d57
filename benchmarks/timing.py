"""Races: contestants take turns, the best time of each counts, the answers must agree.

Other work on the machine only ever makes a run slower, so the best of several is the
nearest to the truth; taking turns spreads a busy minute over all contestants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Contestant = Callable[[], Any]


@dataclass(frozen=True)
class Times:
    """Seconds of every run of every contestant."""

    runs: Mapping[str, list[float]]

    def best(self, name: str) -> float:
        """The best run of ``name``."""
        return min(self.runs[name])

    def ratio(self, slow: str, fast: str) -> float:
        """How many times faster ``fast`` is."""
        return self.best(slow) / self.best(fast)

    def to_json(self) -> dict[str, float]:
        """The best time of each, in seconds."""
        return {name: min(runs) for name, runs in self.runs.items()}

    def spread(self) -> dict[str, float]:
        """Slowest over fastest run of each: how noisy the machine was."""
        return {name: max(runs) / min(runs) for name, runs in self.runs.items()}


def timed(work: Contestant) -> tuple[float, Any]:
    """Seconds that ``work`` took, and its result."""
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def race(
    reference: tuple[str, Contestant],
    rivals: Mapping[str, Contestant],
    *,
    same: Callable[[Any, Any], None],
    repeats: int = 5,
    rival_repeats: int | None = None,
    before: Callable[[], None] = lambda: None,
) -> Times:
    """Time the reference and its rivals in turns.

    The reference runs once before the clock does, to compile; its result is what each
    rival's first result is compared with by ``same(result, expected)``, which raises.

    Parameters
    ----------
    repeats : rounds; rivals take part in the first ``rival_repeats`` of them
    before : called before each rival's run, off the clock
    """
    name, ours = reference
    expected = ours()
    runs: dict[str, list[float]] = {name: [], **{rival: [] for rival in rivals}}
    for turn in range(repeats):
        runs[name].append(timed(ours)[0])
        if rival_repeats is not None and turn >= rival_repeats:
            continue
        for rival, work in rivals.items():
            before()
            seconds, result = timed(work)
            runs[rival].append(seconds)
            if turn == 0:
                same(result, expected)
            # Gigabytes, some of them: gone before the next one runs.
            del result
    return Times(runs)
