"""Few samples, held as they are until somebody needs their gram.

A gram of n samples has rank n at most: while n is far below the number of columns, the codes
are the smaller of the two, and whatever is asked of the gram follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._internal.memory import require
from safle.statistics import counting
from safle.statistics.kernels import triangle
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

    def columns(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of the gram, int64, (dim, chosen)."""
        phi = self.values()
        return exact_product(phi, phi[:, chosen])

    def gram(self, offsets: NDArray[np.int64], dtype: Any) -> NDArray[np.signedinteger[Any]]:
        """The packed gram of all columns."""
        size = triangle.packed_size(self.dim)
        require(
            size * np.dtype(dtype).itemsize,
            purpose=f"a gram of {self.dim} rows ({self.seen} codes seen)",
            advice="use an encoder with smaller tables (group_size, buckets)",
        )
        gram: NDArray[np.signedinteger[Any]] = np.zeros(size, dtype)
        counting.add_gram(gram, self.rows, self.dense, offsets)
        return gram
