"""Smaller bases that lose nothing of the gram: without known redundancies, or for few samples.

Every expert's one-hot columns sum to the constant 1, so E experts (and constant
columns) hold that direction E times over. In orthonormal coordinates, each expert is its
share of the constant plus V - 1 contrasts; the shares span one direction,
``alpha_a = 1/sqrt(V_a)``, along which the column is ``|alpha| 1``. All other directions of the
shares are the null space of the gram: ridge solutions have no component there.

A gram of few samples has a root, ``C = L L'``, with no more columns than there are samples:
a pivoted Cholesky factorisation that reads only the columns of the gram that it takes. It takes the
columns with the largest remainder on the diagonal, `BLOCK_COLUMNS` at a time, so that nearly all
work is matrix products, and stops when nothing remains, after ``rank(C)`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from safle._native import Kernel
from safle.basics.memory import require_free_memory
from safle.statistics.free_sums import FreeSums
from safle.statistics.value import Sums

Matrix = NDArray[np.float64]
BLOCK_COLUMNS = 128
ROUNDING = 1e-13
"""A remainder below this share of the largest diagonal entry is rounding."""
LEAST_PIVOT = 0.05
"""As a share of the largest remainder: a smaller pivot waits, which keeps L accurate."""
_fill_tile = Kernel(
    "fill_tile",
    "gram i4|i8[packed(dim)]; dim; totals f8[dim]; n",
    "rows i8[reduced] <dim; experts i8[reduced] <expert_count + 1",
    "leads i8[expert_count] <dim; kappas f8[expert_count]; expert_count; scales f8[dim]",
    "top; left; tile f4|f8[width, height]!; height; terms f8[expert_count + 1]~",
    pieces="width",
)


class Reduction:
    """Orthonormal Q, (dim, reduced_dim): real full coordinates <-> reduced ones.

    Reduced coordinates: the merged constant (if any), the contrasts of each expert, the dense
    columns that are not constant. The units' real values are divided by the root of ``ratio``.
    """

    def __init__(self, statistics: Sums, ratio: float = 1.0) -> None:
        layout, seen = statistics.layout, len(statistics.codes)
        self.dim = statistics.dim
        self.offsets = statistics.offsets if seen else np.zeros(1, np.int64)
        self.sizes = np.diff(self.offsets)
        shares = 1 / np.sqrt(self.sizes)
        free = FreeSums.of(statistics)
        self.constants = free.constants
        self._shares = np.concatenate([shares, np.ones(len(self.constants))])
        self.alpha = float(np.sqrt((self._shares**2).sum()))
        experts_of = np.repeat(np.arange(len(self.sizes)), self.sizes)
        codes = np.searchsorted(free.rows, seen)
        self._contrast_rows, self._plain_rows = free.rows[:codes], free.rows[codes:]
        with np.errstate(divide="ignore"):
            self._kappa = np.where(self.sizes > 1, shares / (1 - shares), 0.0)
        plain = np.full(len(self._plain_rows), len(self.sizes))
        # The merged constant has no row in the gram; `tile` fills in its products.
        merged = [0] if self.alpha else []
        self._rows = np.concatenate([merged, self._contrast_rows, self._plain_rows])
        self._experts = np.concatenate([merged, experts_of[self._contrast_rows], plain])
        real = np.ones(self.dim)
        real[seen:] = 1 / np.array(layout.dense_scales, np.float64)
        real[self.dim - layout.units :] *= ratio**-0.5
        self.real = real
        """Real value of one unit of each full column, (dim,)."""
        self._statistics = statistics
        self._totals = statistics.cross.sum(axis=1) * real
        """Sum over samples of every real column, (dim,)."""

    @property
    def reduced_dim(self) -> int:
        return len(self._rows)

    def forward(self, full: Matrix) -> Matrix:
        """``Q' full``, (reduced_dim, width)."""
        parts = []
        if len(self.sizes):
            sums = np.add.reduceat(full[: self.offsets[-1]], self.offsets[:-1], axis=0)
            shares = self._shares[: len(self.sizes), None]
            shift = self._kappa[:, None] * (full[self.offsets[:-1]] - shares * sums)
            spread = np.repeat(shift, self.sizes, axis=0)
            parts.append((full[: self.offsets[-1]] + spread)[self._contrast_rows])
        else:
            sums, shares = np.empty((0, full.shape[1])), np.empty((0, 1))
        if self.alpha:
            merged = (shares**2 * sums).sum(axis=0) + full[self.constants].sum(axis=0)
            parts.insert(0, merged[None] / self.alpha)
        return np.concatenate([*parts, full[self._plain_rows]])

    def backward(self, reduced: Matrix) -> Matrix:
        """``Q reduced``, (dim, width)."""
        full = np.zeros((self.dim, reduced.shape[1]))
        first = 1 if self.alpha else 0
        last = first + len(self._contrast_rows)
        full[self._contrast_rows] = reduced[first:last]
        full[self._plain_rows] = reduced[last:]
        if self.alpha:
            merged = reduced[:1] / self.alpha
            full[self.constants] = merged
            if len(self.sizes):
                self._reflect_back(full, merged)
        return full

    def _reflect_back(self, full: Matrix, merged: Matrix) -> None:
        """Apply each expert's reflection to (share of the constant, contrasts)."""
        starts = self.offsets[:-1]
        shares = self._shares[: len(self.sizes), None]
        full[starts] = shares * merged
        block = full[: self.offsets[-1]]
        sums = np.add.reduceat(block, starts, axis=0)
        head = full[starts].copy()
        shift = self._kappa[:, None] * (head - shares * sums)
        block += np.repeat(shift, self.sizes, axis=0)
        full[starts] = shares * sums

    def tile(
        self, rows: tuple[int, int], columns: tuple[int, int], dtype: Any
    ) -> NDArray[np.floating[Any]]:
        """Block of the reduced gram, Fortran order; zero above the diagonal."""
        (top, bottom), (left, right) = rows, columns
        if not (0 <= top <= bottom <= self.reduced_dim and 0 <= left <= right <= self.reduced_dim):
            raise IndexError("the tile is not within the reduced gram")
        block = np.zeros((bottom - top, right - left), dtype, order="F")
        s = self._statistics
        _fill_tile(
            s.gram.packed,
            self._totals,
            float(s.sample_count),
            self._rows.astype(np.int64),
            self._experts.astype(np.int64),
            self.offsets[:-1],
            self._kappa,
            self.real,
            top,
            left,
            block.T,
        )
        if self.alpha and left == 0:
            block[:, 0] = self._constant_column()[top:bottom]
        return block

    def _constant_column(self) -> NDArray[np.float64]:
        """Products of the merged constant with every reduced column, (reduced_dim,)."""
        n, experts = float(self._statistics.sample_count), len(self.sizes)
        kappas = np.append(self._kappa, 0.0)[self._experts]
        leads = np.append(self.offsets[:-1], 0)[np.minimum(self._experts, experts)]
        correction = kappas * (self._totals[leads] - kappas / (1 + kappas) * n)
        column = self.alpha * (self._totals[self._rows] + correction)
        column[0] = self.alpha**2 * n
        return column


@dataclass(frozen=True)
class Root:
    """``C = factor factor'`` in real units."""

    factor: Matrix
    """(dim, rank), in column order."""
    pivots: NDArray[np.int64]
    """(rank,): the rows at which ``factor`` is lower triangular."""

    def divide(self, target: Matrix) -> Matrix:
        """``c`` with ``factor c = target``, (rank, width), of a target in the gram's range."""
        quotient: Matrix = solve_triangular(
            self.factor[self.pivots], target[self.pivots], lower=True
        )
        return quotient


def root_of(statistics: Sums, real: Matrix) -> Root:
    """The root of the gram in units of ``real``, (dim,)."""
    dim, most = statistics.dim, min(statistics.sample_count, statistics.dim)
    require_free_memory(
        8 * dim * (most + 2 * BLOCK_COLUMNS),
        purpose=f"the root of a gram of {most} samples and {dim} columns",
        advice="use a smaller encoder, or give a ridge",
    )
    remainder = statistics.diagonal * real**2
    rounding = ROUNDING * float(remainder.max(initial=0.0))
    factor = np.empty((dim, most), order="F")
    pivots = np.empty(most, np.int64)
    rank = 0
    while rank < most and remainder.max(initial=0.0) > rounding:
        block = np.argsort(-remainder, kind="stable")[: min(BLOCK_COLUMNS, most - rank)]
        least = max(rounding, LEAST_PIVOT * float(remainder[block[0]]))
        columns = statistics.gram.columns(block) * real[:, None] * real[block]
        columns -= factor[:, :rank] @ factor[block, :rank].T
        corner, order, block_rank, _ = lapack.dpstrf(columns[block], lower=1, tol=least)
        kept = order[:block_rank] - 1
        upper = np.tril(corner[:block_rank, :block_rank])
        new = solve_triangular(upper, columns[:, kept].T, lower=True).T
        # Earlier pivots have no remainder, but for rounding.
        new[pivots[:rank]] = 0.0
        new[block[kept]] = upper
        factor[:, rank : rank + block_rank], pivots[rank : rank + block_rank] = new, block[kept]
        rank += block_rank
        remainder -= (new**2).sum(axis=1)
        remainder[pivots[:rank]] = 0.0
    return Root(factor[:, :rank], pivots[:rank])
