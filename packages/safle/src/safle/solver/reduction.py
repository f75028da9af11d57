"""Smaller bases of the whole gram: without known redundancies, or for few samples.

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

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from safle._native import Kernel
from safle._native.cores import blas_for
from safle.basics.memory import require_free_memory
from safle.statistics.free_sums import FreeSums
from safle.statistics.statistics import Sums

Matrix = NDArray[np.float64]
MAX_SMALL_RANK = 1_500
"""Of a matrix that is decomposed: ten times as many columns take a thousand times as long."""
ROOT_SHARE = 0.5
"""With more samples than this share of the columns, the root takes longer than solving."""
BLOCK_COLUMNS = 128
ROUNDING = 1e-13
"""A remainder below this share of the largest diagonal entry is rounding."""
MIN_PIVOT = 0.05
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
    columns that are not constant.
    """

    def __init__(self, sums: Sums) -> None:
        layout = sums.layout
        seen = len(sums.codes)
        free = FreeSums.of(sums)
        self.sums = sums
        self._offsets = sums.offsets if seen else np.zeros(1, np.int64)
        self._sizes = np.diff(self._offsets)
        shares = 1 / np.sqrt(self._sizes)
        constants = layout.low[layout.constants] / layout.scales[layout.constants]
        self._shares = np.concatenate([shares, constants])
        self._constants = np.concatenate([self._offsets[:-1], free.constants])
        """Rows in which `_reflect` leaves shares of the constant."""
        self.alpha = float(np.sqrt((self._shares**2).sum()))
        with np.errstate(divide="ignore"):
            self._kappa = np.where(self._sizes > 1, shares / (1 - shares), 0.0)
        experts = np.repeat(np.arange(len(self._sizes)), self._sizes)
        of_rows = np.concatenate([experts, np.full(layout.dense_dim, len(self._sizes))])
        # The merged constant has no row in the gram; `tile` fills in its products.
        merged = [0] if self.alpha else []
        self._free_rows = free.rows
        self._rows = np.concatenate([merged, free.rows]).astype(np.int64)
        self._experts = np.concatenate([merged, of_rows[free.rows]]).astype(np.int64)
        steps = np.ones(sums.dim)
        steps[seen:] = 1 / layout.scales
        self.steps = steps
        """Real value of 1 in each full column of codes, (dim,)."""
        self._totals = sums.cross.sum(axis=1) * steps
        """Sum over samples of every real column, (dim,)."""

    @property
    def reduced_dim(self) -> int:
        return len(self._rows)

    @property
    def rank(self) -> int:
        """The largest that the gram can have; with noise, always the full rank."""
        if self.sums.least_ridge:
            return self.reduced_dim
        return min(self.reduced_dim, self.sums.sample_count)

    @property
    def is_small(self) -> bool:
        """Whether columns or samples are few enough for an exact decomposition."""
        return self.rank <= MAX_SMALL_RANK

    @cached_property
    def root(self) -> tuple[Matrix, NDArray[np.int64]] | None:
        """`find_root`, where there are few samples for so many columns; else None."""
        most = max(MAX_SMALL_RANK, ROOT_SHARE * self.reduced_dim)
        if self.rank == self.reduced_dim or self.rank > most:
            return None
        return find_root(self)

    @property
    def target(self) -> Matrix:
        """M in real units, (dim, class_count)."""
        return self.sums.cross * self.steps[:, None]

    @property
    def trace(self) -> float:
        """Of the gram in real units."""
        return float((self.sums.diagonal * self.steps**2).sum())

    def forward(self, full: Matrix) -> Matrix:
        """``Q' full``, (reduced_dim, width)."""
        turned = self._reflect(full.copy())
        if not self.alpha:
            return turned[self._free_rows]
        merged = (self._shares[:, None] * turned[self._constants]).sum(axis=0)
        return np.concatenate([merged[None] / self.alpha, turned[self._free_rows]])

    def backward(self, reduced: Matrix) -> Matrix:
        """``Q reduced``, (dim, width)."""
        full = np.zeros((self.sums.dim, reduced.shape[1]))
        full[self._free_rows] = reduced[self.reduced_dim - len(self._free_rows) :]
        if self.alpha:
            full[self._constants] = self._shares[:, None] * (reduced[:1] / self.alpha)
        return self._reflect(full)

    def _reflect(self, full: Matrix) -> Matrix:
        """Turn each expert's codes, in place, into share of the constant and contrasts, or back."""
        starts = self._offsets[:-1]
        codes = full[: self._offsets[-1]]
        parts = self._shares[: len(starts), None] * np.add.reduceat(codes, starts, axis=0)
        codes += np.repeat(self._kappa[:, None] * (full[starts] - parts), self._sizes, axis=0)
        full[starts] = parts
        return full

    def gram(self) -> Matrix:
        """The reduced gram, Fortran order; zero above the diagonal."""
        whole = 0, self.reduced_dim
        return self.tile(whole, whole, np.float64)

    def tile(self, rows: tuple[int, int], columns: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """Block of the reduced gram, Fortran order; zero above the diagonal."""
        top, bottom = rows
        left, right = columns
        if not (0 <= top <= bottom <= self.reduced_dim and 0 <= left <= right <= self.reduced_dim):
            raise IndexError("the tile is not within the reduced gram")
        block = np.zeros((bottom - top, right - left), dtype, order="F")
        _fill_tile(
            self.sums.gram.packed,
            self._totals,
            float(self.sums.sample_count),
            self._rows,
            self._experts,
            self._offsets[:-1],
            self._kappa,
            self.steps,
            top,
            left,
            block.T,
        )
        if self.alpha and left == 0:
            block[:, 0] = self._constant_column()[top:bottom]
        return block

    def _constant_column(self) -> NDArray[np.float64]:
        """Products of the merged constant with every reduced column, (reduced_dim,)."""
        n = float(self.sums.sample_count)
        experts = len(self._sizes)
        kappas = np.append(self._kappa, 0.0)[self._experts]
        leads = np.append(self._offsets[:-1], 0)[np.minimum(self._experts, experts)]
        correction = kappas * (self._totals[leads] - kappas / (1 + kappas) * n)
        column = self.alpha * (self._totals[self._rows] + correction)
        column[0] = self.alpha**2 * n
        return column


def square_of(root: Matrix) -> Matrix:
    """``L' L``, (rank, rank)."""
    dim, rank = root.shape
    with blas_for(2 * dim * rank**2):
        return root.T @ root


def find_root(reduction: Reduction) -> tuple[Matrix, NDArray[np.int64]]:
    """L, (dim, rank), of ``C = L L'`` in real units, and the rows at which it is triangular."""
    sums = reduction.sums
    steps = reduction.steps
    dim = sums.dim
    most = min(sums.sample_count, dim)
    require_free_memory(
        8 * dim * (most + 2 * BLOCK_COLUMNS),
        purpose=f"the root of a gram of {most} samples and {dim} columns",
        advice="use a smaller encoder, or solve on a machine with more memory",
    )
    remainder = sums.diagonal * steps**2
    rounding = ROUNDING * float(remainder.max(initial=0.0))
    root = np.empty((dim, most), order="F")
    pivots = np.empty(most, np.int64)
    rank = 0
    while rank < most and remainder.max(initial=0.0) > rounding:
        block = np.argsort(-remainder, kind="stable")[: min(BLOCK_COLUMNS, most - rank)]
        least = max(rounding, MIN_PIVOT * float(remainder[block[0]]))
        columns = sums.gram.columns(block) * steps[:, None] * steps[block]
        with blas_for(2 * dim * rank * len(block)):
            columns -= root[:, :rank] @ root[block, :rank].T
        corner, order, block_rank, _ = lapack.dpstrf(columns[block], lower=1, tol=least)
        kept = order[:block_rank] - 1
        upper = np.tril(corner[:block_rank, :block_rank])
        new = solve_triangular(upper, columns[:, kept].T, lower=True).T
        # Earlier pivots have no remainder, except from rounding.
        new[pivots[:rank]] = 0.0
        new[block[kept]] = upper
        root[:, rank : rank + block_rank] = new
        pivots[rank : rank + block_rank] = block[kept]
        rank += block_rank
        remainder -= (new**2).sum(axis=1)
        remainder[pivots[:rank]] = 0.0
    return root[:, :rank], pivots[:rank]
