"""A head in a file of its own: what a stranger writes to add one.

The nearest class mean: ``W_c = mean_c``, ``intercept_c = log(n_c / n) - |mean_c|^2 / 2``, which are
log posteriors where features vary by 1 within classes, and independently.
"""

from __future__ import annotations

from safle.solver.heads import BaseOf, FittedHead, Head
from safle.solver.ordered import log_shares
from safle.statistics.statistics import Sums


def fit(sums: Sums, base_of: BaseOf) -> FittedHead:
    base = base_of()
    means = base.choice.reduction.target / sums.class_counts
    intercept = log_shares(sums.class_counts) - (means**2).sum(axis=0) / 2
    return FittedHead(HEAD.name, base.ridge, means, intercept, temperature=1.0)


HEAD = Head(name="nearest-mean", summary="the nearest class mean", fit=fit)
