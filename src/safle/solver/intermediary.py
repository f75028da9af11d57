"""The paper's protocol as written: the Regularization Intermediary (RI).

Client k sends ``C_k^r = C_k + gamma I`` and ``M_k``. The server sums over K clients:
``W^r = inverse(C_agg^r) M_agg``, a ridge of K gamma, and, with the intermediary taken
away again, ``W = pinv(C_agg^r - K gamma I) M_agg``, the pooled least squares. ``gamma I``
travels as the number gamma beside the integers, so nothing is rounded when it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from safle.errors import InvalidInput
from safle.solver.facade import solve
from safle.solver.solution import Solution
from safle.statistics import Statistics, sum_statistics


@dataclass(frozen=True)
class RegularizedStatistics:
    """``C + intermediary I`` and ``M``; added with ``+`` like the statistics themselves."""

    statistics: Statistics
    intermediary: float

    def __add__(self, other: RegularizedStatistics) -> RegularizedStatistics:
        return RegularizedStatistics(
            self.statistics + other.statistics, self.intermediary + other.intermediary
        )


def regularize(statistics: Statistics, gamma: float) -> RegularizedStatistics:
    """What a client sends."""
    if not gamma > 0:
        raise InvalidInput(f"gamma {gamma}; expected a positive number")
    return RegularizedStatistics(statistics, gamma)


def aggregate(messages: Iterable[RegularizedStatistics]) -> RegularizedStatistics:
    """What the server holds after the round."""
    received = list(messages)
    total = sum_statistics(message.statistics for message in received)
    return RegularizedStatistics(total, sum(message.intermediary for message in received))


def solve_regularized(total: RegularizedStatistics) -> Solution:
    """W^r, with the intermediary still in."""
    return solve(total.statistics, ridge=total.intermediary, head="least-squares")


def solve_restored(total: RegularizedStatistics) -> Solution:
    """W, with the intermediary removed."""
    return solve(total.statistics, ridge=0)
