"""A gram of few samples by its root: ``G = Z'Z``, Z real, (rank, dim).

Some columns of a gram of rank r determine all of it. Let A be the columns B, r of them
independent, and ``L L' = A_B`` the (pivoted) Cholesky factorisation of their own rows; then
``Z = inverse(L) A'``. The entries of ``Z'Z`` are integers except for rounding. This is checked: a
matrix with an entry that is not close to an integer is not a gram. Kernels in ``_native/check.c``
and ``_native/triangle.c``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from safle._native import Kernel
from safle._native.cores import blas_for
from safle.errors import InvariantError
from safle.statistics.gram import ALL_ROWS, multiply_out
from safle.statistics.invariants import fail
from safle.statistics.triangle import Integers, Packed

if TYPE_CHECKING:
    from safle.statistics.statistics import Margins

Matrix = NDArray[np.float64]
TILE = 1024
DEPENDENT_SHARE = 1e-11
"""A column is dependent if its remaining square is below this share of the largest square."""
INTEGER_DISTANCE = 0.25
"""Computed values that differ by less are the same integer."""
MAX_SQUARE = 2.0**53
"""Squared length that no column reaches: 65,535 samples of 32,767 stay 128 times below."""
ROUNDING = 0.01
"""Distance from an integer that rounding may leave."""
FLOAT32_ROUNDING = 2.0**-24
"""The same for float32: to be multiplied by the root of the rank and two columns' lengths."""
MAX_FLOAT32_DISTANCE = 0.0125
"""Where float32 may leave a larger distance, float64 is used.

Each of the r roundings of an entry is at most ``2**-24 |z_i| |z_j|`` (Cauchy and Schwarz). By
Hoeffding, together they reach t with probability ``2 exp(-t**2 / 2 b**2)`` at most, where b is
what `FLOAT32_ROUNDING` says. With b up to 0.0125, what is a tenth from an integer passes for
one (t = 0.09) in fewer than 1 of 1e11 cases, and no entry rounds to another integer (t = 0.49).
"""
PRIME = (1 << 31) - 1
"""A Mersenne prime: a product of two residues fits 62 bits, and is reduced by a shift."""
_first_independent = Kernel(
    "first_independent", "gram i8[size, size]!; size; limit; chosen i8[limit]!; count i8[1]!"
)
_round_tile = Kernel(
    "round_tile",
    "tile f4|f8[height, width]!; width; top; left; low i8[dim]; high i8[dim]; total i8[dim]",
    "expert i4[dim]; n; tolerance; faults i8[height]!",
    pieces="height",
)
_add_integers = Kernel(
    "add_integers",
    "gram i4|i8[packed(dim)]!; dim; positions i8[size] <dim; top; left",
    "tile f4|f8[height, width]; width; sign; together",
    pieces="height",
)


@dataclass(frozen=True, eq=False)
class LowRank:
    """A gram as its root Z.

    Attributes
    ----------
    root : float64, (rank, dim)
    pivots : int64, (rank,), independent columns; at these the root is L'
    margins : of the same samples; they bound the entries
    """

    root: Matrix
    pivots: Integers
    margins: Margins
    packed = cached_property(multiply_out)

    @staticmethod
    def of(columns: Integers, chosen: Integers, rank: int, margins: Margins) -> LowRank:
        """The gram with these columns at ``chosen``; ``rank`` of them are independent."""
        block = columns[chosen].astype(np.float64)
        tolerance = DEPENDENT_SHARE * float(block.diagonal().max(initial=0.0))
        with blas_for(rank**3 / 3):
            lower, order, independent, _ = lapack.dpstrf(block, lower=1, tol=tolerance)
        if independent < rank:
            raise InvariantError(
                f"{independent} of {rank} columns are independent; no data set has these sums"
            )
        lower = np.tril(lower[:rank, :rank])
        order = order[:rank] - 1
        # LAPACK wants it column by column in memory: so it copies nothing.
        right = columns[:, order].astype(np.float64).T
        with blas_for(rank * right.size):
            root = solve_triangular(lower, right, lower=True, overwrite_b=True, check_finite=False)
        # By Cauchy and Schwarz, no product is larger than the longest column's square.
        if not (np.einsum("ri,ri->i", root, root) < MAX_SQUARE).all():
            raise InvariantError("sums beyond 2**53; these are not sums of any data set")
        return LowRank(root, chosen[order], margins)

    @property
    def dim(self) -> int:
        return self.root.shape[1]

    @cached_property
    def _narrow(self) -> NDArray[np.float32]:
        return self.root.astype(np.float32)

    @cached_property
    def diagonal(self) -> Integers:
        return np.rint(np.einsum("ri,ri->i", self.root, self.root)).astype(np.int64)

    def columns(self, chosen: Integers, rows: Integers | slice = ALL_ROWS) -> Integers:
        return np.rint(self.root[:, rows].T @ self.root[:, chosen]).astype(np.int64)

    def multiply(self, right: Matrix) -> Matrix:
        with blas_for(4 * self.root.size * right.shape[1]):
            product: Matrix = self.root.T @ (self.root @ right)
        return product

    def add_to(self, target: Packed, dim: int, positions: Integers, sign: int = 1) -> None:
        done = 0
        with blas_for(self.root.size * self.dim):
            try:
                for top, left, tile in self._tiles():
                    _add_tile(target, dim, positions, top, left, tile, sign)
                    done += 1
            except InvariantError:
                # Tiles that are made again have the same integers: take all of them off.
                for top, left, tile in islice(self._tiles(), done):
                    _add_tile(target, dim, positions, top, left, tile, -sign)
                raise

    def require_integers(self) -> None:
        with blas_for(self.root.size * self.dim):
            for _ in self._tiles():
                pass

    def _tiles(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Tiles and their first rows and columns: one at a time, the gram is never held whole."""
        lengths = np.sqrt(self.diagonal.astype(np.float64))
        for top in range(0, self.dim, TILE):
            for left in range(top, self.dim, TILE):
                tile, good = self._tile(top, left, lengths)
                if not good:
                    raise InvariantError(
                        "the sums that follow from the columns are not integers, or impossible; "
                        "these are not sums of any data set"
                    )
                yield top, left, tile

    def _tile(self, top: int, left: int, lengths: Matrix) -> tuple[NDArray[Any], bool]:
        """A tile rounded to integers, and whether `_round` accepts it."""
        rows = slice(top, top + TILE)
        columns = slice(left, left + TILE)
        length = float(lengths[rows].max() * lengths[columns].max())
        rounding = FLOAT32_ROUNDING * np.sqrt(len(self.root)) * length
        if rounding <= MAX_FLOAT32_DISTANCE:
            tile: NDArray[Any] = self._narrow[:, rows].T @ self._narrow[:, columns]
            if self._round(tile, top, left, min(rounding, ROUNDING)):
                return tile, True
        tile = self.root[:, rows].T @ self.root[:, columns]
        return tile, self._round(tile, top, left, ROUNDING)

    def _round(self, tile: NDArray[Any], top: int, left: int, tolerance: float) -> bool:
        """Round a tile, whose first entry is (``top``, ``left``) of the gram, in place.

        Returns whether every entry on or above the diagonal is within ``tolerance`` of an integer,
        a possible product of two columns (see `invariants.find_impossible`), and zero for two
        different codes of one expert.
        """
        faults = np.zeros(len(tile), np.int64)
        margins = self.margins
        _round_tile(
            tile,
            top,
            left,
            margins.low,
            margins.high,
            margins.totals,
            margins.experts,
            margins.sample_count,
            tolerance,
            faults,
        )
        return not faults.any()

    def verify(self, margins: Margins) -> None:
        """Check what a root does not guarantee by itself, without multiplying it out."""
        totals = margins.totals.astype(np.float64)
        if margins.layout.experts:
            # Every expert's codes sum to the constant 1, whose product with a column is its total.
            codes = self.root[:, : len(margins.codes)]
            ones = np.add.reduceat(codes, margins.offsets[:-1], axis=1)
            if not (np.abs(ones.T @ self.root - totals) < INTEGER_DISTANCE).all():
                fail("an expert's codes sum to one for every sample", "they do not")
        cross = margins.cross[self.pivots].astype(np.float64)
        lower = self.root[:, self.pivots].T
        labels = solve_triangular(lower, cross, lower=True, check_finite=False)
        if not (np.abs(self.root.T @ labels - margins.cross) < INTEGER_DISTANCE).all():
            fail("the class sums belong to the same samples as the products", "they do not")
        counts = np.sqrt(margins.class_counts.astype(np.float64))
        shares = labels.T @ labels / np.outer(counts, counts)
        if not np.linalg.eigvalsh(shares).max(initial=0.0) <= 1 + 1e-6:
            fail("the class sums fit the class counts", "they are too large")


def _add_tile(
    packed: Packed,
    dim: int,
    positions: Integers,
    top: int,
    left: int,
    tile: NDArray[np.floating[Any]],
    sign: int,
) -> None:
    """``packed[positions_i, positions_j] += sign * tile[i - top, j - left]`` for i <= j."""
    last = left + tile.shape[1] - 1
    together = positions[last] - positions[left] == last - left
    _add_integers(packed, dim, positions, top, left, tile, sign, int(together))


def first_independent(gram: Integers, most: int) -> Integers:
    """The lexicographically first independent columns of a symmetric matrix, at most ``most``.

    Computed modulo `PRIME`, so that no rounding decides; ascending.
    """
    chosen = np.zeros(min(len(gram), most), np.int64)
    count = np.zeros(1, np.int64)
    _first_independent(gram % PRIME, chosen, count)
    return chosen[: count[0]]
