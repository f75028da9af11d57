"""Kernels of the solver: the reduced gram, and row sums.

Tiles of the reduced gram ``Q' S^-1 C S^-1 Q`` come straight from the packed integers.

Q (see `safle.solver.reduction`) merges the constant direction that all experts share
and keeps the contrasts inside each expert, by a Householder reflection per expert. The
margins of the gram are known, so an entry of the result needs only four of its entries:
with f the expert's first row, kappa = s / (1 - s), s = 1 / sqrt(V),

    T_ij = C_ij + kappa_a (C_fj - s_a c_j)
         + kappa_b (C_if' + kappa_a (C_ff' - s_a c_f'))
         - kappa_b s_b (c_i + kappa_a (c_f - s_a n)).
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start


@njit(cache=True, nogil=True)
def _expert_terms(gram, dim, totals, n, row, lead, kappa, leads, kappas, terms):  # type: ignore[no-untyped-def]
    """The part of T_ij that depends on column j through its expert only."""
    shrink = kappa / (1.0 + kappa)
    outer = totals[row] + kappa * (totals[lead] - shrink * n)
    for expert in range(len(leads)):
        other = leads[expert]
        if other < lead:
            continue
        # Inside an expert only the diagonal is not zero, and row is not its first.
        inner = gram[start(row, dim) + other] if other > row else 0.0
        inner += kappa * (gram[start(lead, dim) + other] - shrink * totals[other])
        share = kappas[expert] / (1.0 + kappas[expert])
        terms[expert] = kappas[expert] * (inner - share * outer)


@njit(cache=True, nogil=True, parallel=True)
def fill_tile(
    gram: NDArray[np.integer],
    dim: int,
    totals: NDArray[np.float64],
    n: float,
    rows: NDArray[np.int64],
    experts: NDArray[np.int64],
    leads: NDArray[np.int64],
    kappas: NDArray[np.float64],
    scales: NDArray[np.float64],
    top: int,
    left: int,
    tile: NDArray[np.floating],
) -> None:
    """``tile[r, c] = T[top + r, left + c]`` where top + r >= left + c, column by column.

    Parameters
    ----------
    totals : float64, (dim,), sum over samples of each real column
    rows : int64, (reduced,), gram row of each reduced coordinate, ascending
    experts : int64, (reduced,), its expert, or the number of experts for a dense column
    leads, kappas : (experts,), first gram row of each expert and its kappa
    scales : float64, (dim,), real value of one code unit
    tile : float32 or float64, (height, width), Fortran order, written
    """
    for index in prange(tile.shape[1]):
        i = left + np.int64(index)
        row = rows[i]
        output = tile[:, np.int64(index)]
        direct = gram[start(row, dim) :]
        terms = np.zeros(len(leads) + 1)
        kappa, lead = 0.0, row
        if experts[i] < len(leads):
            kappa, lead = kappas[experts[i]], leads[experts[i]]
            _expert_terms(gram, dim, totals, n, row, lead, kappa, leads, kappas, terms)
        through_lead = gram[start(lead, dim) :]
        shrink = kappa / (1.0 + kappa)
        for r in range(max(0, i - top), tile.shape[0]):
            column = rows[top + r]
            value = (direct[column] * scales[row] + kappa * through_lead[column]) * scales[column]
            output[r] = value - kappa * shrink * totals[column] + terms[experts[top + r]]


@njit(cache=True, nogil=True)
def absolute_row_sums(gram: NDArray[np.integer], dim: int) -> NDArray[np.float64]:
    """Sums of the absolute entries of every row of the packed gram, float64, (dim,)."""
    sums = np.zeros(dim)
    for row in range(dim):
        entries, mirrored = gram[start(row, dim) + row : start(row, dim) + dim], sums[row:]
        total = 0.0
        for k in range(len(entries)):
            size = abs(float(entries[k]))
            total += size
            mirrored[k] += size
        # The diagonal was added to its own row already.
        sums[row] += total - abs(float(entries[0]))
    return sums
