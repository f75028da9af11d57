"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers."""

from safle.statistics.accumulator import Accumulator
from safle.statistics.evaluation import Evaluation, require_answers
from safle.statistics.sums import count, sum_statistics
from safle.statistics.value import Statistics

__all__ = [
    "Accumulator",
    "Evaluation",
    "Statistics",
    "count",
    "require_answers",
    "sum_statistics",
]
