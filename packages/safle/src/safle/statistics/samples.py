"""Few samples, held as they are until somebody needs their gram.

A gram of n samples has rank n at most: while n is far below the number of columns, the codes
are the smaller of the two, and whatever is asked of the gram follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Layout
from safle.statistics import counting
from safle.statistics.gram import EVERY, Implied, Integers, Packed
from safle.statistics.kernels import triangle
from safle.statistics.products import exact_product

if TYPE_CHECKING:
    from safle.statistics.value import Margins


@dataclass(frozen=True, eq=False)
class Samples(Implied):
    """A `safle.statistics.gram.Gram`: codes by their rows in it.

    Attributes
    ----------
    rows : int32, (experts, samples), the row of each expert's symbol among the seen codes
    dense : int16, (samples, dense_dim)
    offsets : int64, (experts + 1,), first row of each expert, then the number of seen codes
    """

    rows: NDArray[np.int32]
    dense: NDArray[np.int16]
    offsets: Integers

    @staticmethod
    def none(layout: Layout) -> Samples:
        """No samples: their gram is zero, and takes no memory."""
        return Samples(
            np.zeros((layout.experts, 0), np.int32),
            np.zeros((0, layout.dense_dim), np.int16),
            np.zeros(layout.experts + 1, np.int64),
        )

    def __len__(self) -> int:
        return len(self.dense)

    @property
    def dim(self) -> int:
        return int(self.offsets[-1]) + self.dense.shape[1]

    @cached_property
    def diagonal(self) -> Integers:
        counts = np.bincount(self.rows.reshape(-1), minlength=int(self.offsets[-1]))
        return np.concatenate([counts, np.square(self.dense.astype(np.int64)).sum(axis=0)])

    def _values(self) -> NDArray[np.float32]:
        """Phi, float32, (samples, dim): small integers, exactly."""
        phi = np.zeros((len(self), self.dim), np.float32)
        phi[np.arange(len(self)), self.rows] = 1.0
        phi[:, int(self.offsets[-1]) :] = self.dense
        return phi

    def columns(self, chosen: Integers, rows: Integers | slice = EVERY) -> Integers:
        phi = self._values()
        return exact_product(phi[:, rows], phi[:, chosen])

    def multiply(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        phi = self._values().astype(np.float64)
        return phi.T @ (phi @ right)

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        if not len(self):
            return
        if sign < 0:
            triangle.add_spread(target, dim, self.packed, positions, sign)
            return
        # All rows of an expert lie there between its first one here and the next expert's.
        offsets = np.append(positions[self.offsets[:-1]], dim - self.dense.shape[1])
        offsets[:1] = 0
        rows = positions[self.rows].astype(np.int32)
        counting.add_gram(target, rows, self.dense, offsets)

    def verify(self, margins: Margins) -> None:
        """Nothing is left to check: these are samples."""
