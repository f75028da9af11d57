"""What is left of statistics when the samples that are known are taken off."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from safle.encoders import Codes
from safle.statistics import Statistics


@dataclass
class Residual:
    """Statistics without the samples that are known.

    Attributes
    ----------
    whole : the statistics
    cross, class_counts : without the known samples
    known : their rows of Phi over the seen columns, int32, (dim,)
    owners : numbers of their classes
    """

    whole: Statistics
    cross: NDArray[np.int64]
    class_counts: NDArray[np.int64]
    known: list[NDArray[np.int32]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    @staticmethod
    def of(statistics: Statistics) -> Residual:
        """Nothing is known yet."""
        return Residual(statistics, statistics.cross.copy(), statistics.class_counts.copy())

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    def rows(self) -> NDArray[np.int32]:
        """The known samples, (known, dim)."""
        return np.array(self.known, np.int32).reshape(len(self.known), self.whole.dim)

    def columns(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of the gram, int64, (dim, chosen)."""
        # Sums of products of int16 are exact in float64, and fast.
        rows = self.rows().astype(np.float64)
        return self.whole.gram.columns(chosen) - np.rint(rows.T @ rows[:, chosen]).astype(np.int64)

    def take(self, row: NDArray[np.int64], owner: int) -> bool:
        """Take a sample off, if these are the codes of one; whether they are."""
        if not is_sample(self.whole, row):
            # Not sums of data: a class that holds no sample is not looked at again.
            self.class_counts[owner] = 0
            return False
        self.known.append(row.astype(np.int32))
        self.owners.append(owner)
        self.cross[:, owner] -= row
        self.class_counts[owner] -= 1
        return True

    def codes(self) -> Codes:
        """The known samples' codes."""
        layout, rows, seen = self.whole.layout, self.rows(), len(self.whole.codes)
        codes = self.whole.codes[np.nonzero(rows[:, :seen])[1]].reshape(len(rows), layout.experts)
        symbols = (codes - layout.bases[:-1]).astype(layout.symbol_type)
        return Codes(symbols, rows[:, seen:].astype(np.int16))


def is_sample(statistics: Statistics, row: NDArray[np.integer]) -> bool:
    """Whether a row of Phi, (dim,), could be a sample's: a code per expert, all within limits."""
    seen, layout = len(statistics.codes), statistics.layout
    low, high = np.array(layout.dense_limits, np.int64).reshape(-1, 2).T
    codes, dense = row[:seen], row[seen:]
    if ((codes < 0) | (codes > 1)).any() or ((dense < low) | (dense > high)).any():
        return False
    first = statistics.offsets[:-1]
    return not layout.experts or bool((np.add.reduceat(codes, first) == 1).all())
