"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers."""

from safle.statistics.counting import Counter, count
from safle.statistics.value import RunningTotal, Statistics, sum_statistics

__all__ = ["Counter", "RunningTotal", "Statistics", "count", "sum_statistics"]
