"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.statistics.accumulator import Accumulator, count, sum_statistics
    from safle.statistics.value import Statistics

__all__ = [
    "Accumulator",
    "Statistics",
    "count",
    "sum_statistics",
]

__getattr__ = front_door(__name__)
