"""The ledger: all releases of the same data, and what they cost together.

Every release of a data set reveals a little more about each of its samples: their rho adds up. A
release is in the ledger, on the disk, before its noise is drawn, so that a crash may waste part of
the budget, but never hides a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from safle import ClassName, CodeSpace, Statistics
from safle.basics import Row, StrPath, append_row, locked, now, read_rows
from safle.errors import PrivacyBudgetSpent
from safle_private.noise import (
    Draw,
    check_classes,
    draw_discrete_gaussian,
    epsilon_of,
    plan_noise,
    publish,
)
from safle_private.noisy import NoisyStatistics, Privacy


class Ledger:
    """The releases of one data set, in a journal of JSON lines.

    A row is a release that was made, or begun; its ``rho`` counts in either case.
    """

    def __init__(self, path: StrPath) -> None:
        self._path = Path(path)

    def releases(self) -> list[Row]:
        """All releases, oldest first; `StoreError` if a row was altered."""
        return read_rows(self._path) if self._path.exists() else []

    def spend(
        self,
        space: CodeSpace,
        epsilon: float,
        delta: float,
        *,
        calibration: str = "declared",
        most_epsilon: float = math.inf,
    ) -> Privacy:
        """Note a release, on the disk when this returns, and plan its noise.

        Parameters
        ----------
        space : of the statistics
        calibration : where the encoder's thresholds came from, "declared" or "public"
        most_epsilon : of all releases together, for this delta

        Raises
        ------
        PrivacyBudgetSpent
            The epsilon of all releases together would exceed ``most_epsilon``.
        """
        planned = plan_noise(space.layout, epsilon, delta, calibration=calibration)
        # Without a lock, two processes would each miss the other's release.
        with locked(self._path):
            before = self.releases()
            total = epsilon_of(sum((release["rho"] for release in before), planned.rho), delta)
            total = max(total, float(epsilon))
            if total > most_epsilon:
                raise PrivacyBudgetSpent(
                    f"releases before this one: {len(before)}; with it they make epsilon "
                    f"{total:.4g}; at most {most_epsilon:.4g} is allowed: publish less often, or "
                    "with a smaller epsilon"
                )
            cost = {"epsilon": planned.epsilon, "delta": planned.delta, "rho": planned.rho}
            append_row(self._path, {"time": now(), "encoder": space.fingerprint, **cost})
        return replace(planned, releases=len(before) + 1, total_epsilon=total)

    def publish(
        self,
        total: Statistics,
        classes: Sequence[ClassName],
        epsilon: float,
        delta: float,
        *,
        calibration: str,
        most_epsilon: float = math.inf,
        draw: Draw = draw_discrete_gaussian,
    ) -> NoisyStatistics:
        """Note a release, and publish it: see `spend` and `safle_private.publish`."""
        names = check_classes(total, classes)
        privacy = self.spend(
            total.space, epsilon, delta, calibration=calibration, most_epsilon=most_epsilon
        )
        return publish(total, privacy, names, draw=draw)
