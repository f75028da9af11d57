"""A root of a gram of few samples: ``C = L L'`` with no more columns than there are samples.

A pivoted Cholesky factorisation that reads only the columns of the gram that it takes: the
largest of what is left on the diagonal, some at a time, so that nearly all work is matrix
products. It stops when nothing is left, which is after ``rank(C)`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from safle.basics.memory import require
from safle.statistics.value import Sums

TOGETHER = 128
"""Columns that are taken at a time."""
NOTHING = 1e-13
"""A remainder below this share of the largest diagonal entry is rounding."""
LEAST_PIVOT = 0.05
"""As a share of the largest entry left: a smaller pivot waits, which keeps L accurate."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Root:
    """``C = factor factor'`` in real units."""

    factor: Matrix
    """(dim, rank), in column order."""
    pivots: NDArray[np.int64]
    """(rank,): the rows at which ``factor`` is lower triangular."""

    def divide(self, target: Matrix) -> Matrix:
        """``c`` with ``factor c = target``, (rank, width), of a target in the gram's range."""
        found: Matrix = solve_triangular(self.factor[self.pivots], target[self.pivots], lower=True)
        return found


def root_of(statistics: Sums, real: Matrix) -> Root:
    """The root of the gram in units of ``real``, (dim,)."""
    dim, most = statistics.dim, min(statistics.sample_count, statistics.dim)
    require(
        8 * dim * (most + 2 * TOGETHER),
        purpose=f"the root of a gram of {most} samples and {dim} columns",
        advice="use a smaller encoder, or give a ridge",
    )
    left = statistics.diagonal * real**2
    nothing = NOTHING * float(left.max(initial=0.0))
    factor = np.empty((dim, most), order="F")
    pivots = np.empty(most, np.int64)
    rank = 0
    while rank < most and left.max(initial=0.0) > nothing:
        some = np.argsort(-left, kind="stable")[: min(TOGETHER, most - rank)]
        least = max(nothing, LEAST_PIVOT * float(left[some[0]]))
        columns = statistics.gram.columns(some) * real[:, None] * real[some]
        columns -= factor[:, :rank] @ factor[some, :rank].T
        corner, order, found, _ = lapack.dpstrf(columns[some], lower=1, tol=least)
        kept = order[:found] - 1
        upper = np.tril(corner[:found, :found])
        new = solve_triangular(upper, columns[:, kept].T, lower=True).T
        # Exact zeros where earlier columns have taken all there was.
        new[pivots[:rank]] = 0.0
        new[some[kept]] = upper
        factor[:, rank : rank + found], pivots[rank : rank + found] = new, some[kept]
        rank += found
        left -= (new**2).sum(axis=1)
        left[pivots[:rank]] = 0.0
    return Root(factor[:, :rank], pivots[:rank])
