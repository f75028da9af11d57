"""Shares: how much of a weighted sum of columns rests on few samples.

Let P be a table of all columns, (samples, columns). The *share* of a set of samples in a weighted
sum v = P a is that part of ``sum v^2`` that is theirs. With an orthonormal basis Q of the columns,
the largest share of one sample is its leverage ``q_i' q_i``, and that of a set S is the largest
eigenvalue of ``Q_S Q_S'``: 1 if some sum is zero for all others. Sets are searched for by the
truncated power method (Yuan and Zhang, JMLR 14, 2013), from each sample with a large leverage: what
it finds is there, but there may be more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from safle.basics.memory import require_free_memory

SMALLEST_DIRECTION = 1e-8
"""Weighted sums of columns of length 1 that are shorter than this come from rounding."""
MAX_STARTS = 1_024
"""Samples from which a set is searched; of more, those with the largest leverage."""
MIN_PART = 0.25
"""The share of its fair part of a sum that a sample of a set must have to be considered."""
ROUNDS = 3
"""Steps of the power method: more changed no share by a hundredth."""
Blocks = Callable[[], Iterable[NDArray[np.float64]]]


def find_shares(blocks: Blocks, few: int = 1) -> tuple[float, float]:
    """The largest shares of one row, and of a set of ``few``, in blocks that are read twice.

    >>> shares = find_shares(lambda: [np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])], few=2)
    >>> [round(share, 6) for share in shares]
    [1.0, 1.0]
    """
    factor: NDArray[np.float64] | None = None
    for block in blocks():
        size = block.shape[1]
        if factor is None:
            require_free_memory(
                8 * (3 * size + 3 * len(block)) * size,
                purpose=f"judging samples by {size} columns",
                advice="use an encoder with fewer columns, or send sums under masks",
            )
            # A direction in which nothing lies but rounding is left out.
            factor = SMALLEST_DIRECTION * np.eye(size)
        factor = np.asarray(np.linalg.qr(np.concatenate([factor, block]), mode="r"))
    one = 0.0
    starts: NDArray[np.float64] | None = None
    for block in blocks():
        basis = np.asarray(solve_triangular(factor, block.T, trans="T")).T
        leverage = (basis**2).sum(axis=1)
        one = max(one, float(leverage.max(initial=0)))
        found = basis[leverage >= MIN_PART / max(few, 1)]
        starts = found if starts is None else np.concatenate([starts, found])
        if len(starts) > MAX_STARTS:
            starts = starts[np.argsort((starts**2).sum(axis=1))[-MAX_STARTS:]]
    largest = one if few else 0.0
    if few > 1 and starts is not None:
        largest = max(one, _share_of_few(starts, few))
    return min(one, 1.0), min(largest, 1.0)


def _share_of_few(basis: NDArray[np.float64], few: int) -> float:
    """The largest share found of a set of ``few`` of these rows of an orthonormal basis.

    From each row, the set is that of the rows which are most alike; then, over and over, of those
    with most of the sum in which the set has its largest share.
    """
    products = basis @ basis.T
    size = min(few, len(basis))
    largest = 0.0
    for start in range(len(basis)):
        parts = np.abs(products[start])
        for _ in range(ROUNDS):
            chosen = np.argpartition(-parts, size - 1)[:size]
            shares, sums = np.linalg.eigh(products[np.ix_(chosen, chosen)])
            largest = max(largest, float(shares[-1]))
            parts = np.abs(sums[:, -1] @ products[chosen])
    return largest
