"""Few samples, held as they are until somebody needs their gram.

A gram of n samples has rank n at most: while n is far below the number of columns, the codes
are the smaller of the two, and whatever is asked of the gram follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.statistics import counting
from safle.statistics.factor import EVERY
from safle.statistics.products import exact_product


@dataclass(frozen=True)
class Samples:
    """Codes by their rows in the gram.

    Attributes
    ----------
    rows : int32, (experts, samples), the row of each expert's symbol among the seen codes
    dense : int16, (samples, dense_dim)
    seen : number of seen codes, which come before the dense columns
    """

    rows: NDArray[np.int32]
    dense: NDArray[np.int16]
    seen: int

    def __len__(self) -> int:
        return len(self.dense)

    @property
    def dim(self) -> int:
        return self.seen + self.dense.shape[1]

    def diagonal(self, totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Diagonal of the gram, int64, (dim,); of a one-hot column it is the total."""
        squares = np.square(self.dense.astype(np.int64)).sum(axis=0)
        return np.concatenate([totals[: self.seen], squares])

    def values(self) -> NDArray[np.float32]:
        """Phi, float32, (samples, dim): small integers, exactly."""
        phi = np.zeros((len(self), self.dim), np.float32)
        phi[np.arange(len(self)), self.rows] = 1.0
        phi[:, self.seen :] = self.dense
        return phi

    def columns(
        self, chosen: NDArray[np.int64], rows: NDArray[np.int64] | slice = EVERY
    ) -> NDArray[np.int64]:
        """Columns of the gram, int64, (dim, chosen); or ``rows`` of them alone."""
        phi = self.values()
        return exact_product(phi[:, rows], phi[:, chosen])

    def add_to(
        self,
        gram: NDArray[np.signedinteger[Any]],
        positions: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        """Add the gram to a packed one.

        Parameters
        ----------
        positions : int64, (seen,), the rows that the seen codes have there
        offsets : int64, (experts + 1,), the rows at which its experts begin
        """
        counting.add_gram(gram, positions[self.rows].astype(np.int32), self.dense, offsets)
