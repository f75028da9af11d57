"""Kernels of the solver: the reduced gram, row sums, and products in a fixed order.

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


@njit(cache=True, nogil=True, parallel=True)
def multiply_in_order(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``left @ right``, every entry summed in one order: the same bits on any machine."""
    result = np.zeros((left.shape[0], right.shape[1]))
    for index in prange(left.shape[0]):
        row = result[np.int64(index)]
        for j in range(left.shape[1]):
            factor = left[np.int64(index), j]
            for k in range(len(row)):
                row[k] += factor * right[j, k]
    return result


@njit(cache=True, nogil=True, parallel=True)
def invert_in_order(matrix: NDArray[np.float64], least: NDArray[np.float64]) -> bool:
    """Invert a positive definite matrix in place, by the same steps on any machine.

    False, and nothing of use in ``matrix``, if pivot k is not above ``least[k]``.
    """
    size = len(matrix)
    for k in range(size):
        if not matrix[k, k] > least[k]:
            return False
        inverse = 1.0 / matrix[k, k]
        matrix[k, k] = 1.0
        for j in range(size):
            matrix[k, j] *= inverse
        for index in prange(size):
            row = matrix[np.int64(index)]
            if np.int64(index) != k:
                factor = row[k]
                row[k] = 0.0
                for j in range(size):
                    row[j] -= factor * matrix[k, j]
    return True


@njit(cache=True, nogil=True)
def factor(matrix: NDArray[np.float64]) -> bool:
    """``matrix = U' U``: its upper triangle becomes U; False if it is not positive definite.

    Rows that lie above are taken off four at a time, so that sums stay in registers.
    """
    size = len(matrix)
    for i in range(size):
        row = matrix[i, i:]
        for k in range(0, i - i % 4, 4):
            a, b, c, d = matrix[k, i:], matrix[k + 1, i:], matrix[k + 2, i:], matrix[k + 3, i:]
            for j in range(size - i):
                row[j] = (((row[j] - a[0] * a[j]) - b[0] * b[j]) - c[0] * c[j]) - d[0] * d[j]
        for k in range(i - i % 4, i):
            above = matrix[k, i:]
            for j in range(size - i):
                row[j] -= above[0] * above[j]
        if not row[0] > 0:
            return False
        pivot = np.sqrt(row[0])
        for j in range(size - i):
            row[j] /= pivot
    return True


@njit(cache=True, nogil=True)
def _invert_triangle(matrix):  # type: ignore[no-untyped-def]
    """The upper triangle becomes its inverse, row by row: each reads only those below it."""
    size = len(matrix)
    sums = np.empty(size)
    for i in range(size - 1, -1, -1):
        # Row i of the inverse: (e_i - sum_k>i U_ik V_k) / U_ii.
        sums[i:] = 0.0
        for k in range(i + 1, size):
            factor, below = matrix[i, k], matrix[k]
            for j in range(k, size):
                sums[j] -= factor * below[j]
        pivot = matrix[i, i]
        for j in range(i + 1, size):
            matrix[i, j] = sums[j] / pivot
        matrix[i, i] = 1.0 / pivot


@njit(cache=True, nogil=True, parallel=True)
def whiten_in_order(matrices: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Upper triangular V, ``V V' = inverse(matrix)``, in the place of each matrix.

    The same steps on any machine and number of threads. False, and nothing of use, for a
    matrix that is not positive definite.

    Parameters
    ----------
    matrices : float64, (count, size, size); what lies below the diagonals is not looked at
    """
    done = np.zeros(len(matrices), np.bool_)
    for index in prange(len(matrices)):
        place = np.int64(index)
        if factor(matrices[place]):
            _invert_triangle(matrices[place])
            done[place] = True
    return done
