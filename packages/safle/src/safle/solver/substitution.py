"""Triangular solves for few right sides: one pass over the factor, at the speed of memory.

A BLAS solves for few columns at a tenth of its rate. Here every entry of the factor that is
read serves all right sides, and eight columns are taken off at a time, so that what is
loaded and stored beside them serves eight multiplications.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

THIN = 32
"""Right sides up to which this is faster than a BLAS."""
SHARES = 4
"""Into which the work on a panel is cut: more than there are often threads, so that one that
is held up leaves the others something to do."""
PAD = 80
"""Entries between rows beyond a multiple of 1,024: in step, rows would share cache lines."""
LOOSE = {"reassoc", "contract"}
"""Sums in any order: exact residuals mend what rounding does here."""


def allocate_rows(right: NDArray[Any]) -> NDArray[Any]:
    """The columns of ``right``, (dim, width), as rows, (width, more than dim)."""
    dim, width = right.shape
    rows = np.zeros((width, -(-dim // 1024) * 1024 + PAD), right.dtype)
    rows[:, :dim] = right.T
    return rows


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _take_eight(panel, low, high, j, row, first):  # type: ignore[no-untyped-def]
    """Take columns j to j + 7, times what is known of ``row`` there, off its further entries."""
    a, b = panel[low:high, j], panel[low:high, j + 1]
    c, d = panel[low:high, j + 2], panel[low:high, j + 3]
    e, f = panel[low:high, j + 4], panel[low:high, j + 5]
    g, h = panel[low:high, j + 6], panel[low:high, j + 7]
    by_a, by_b, by_c, by_d, by_e, by_f, by_g, by_h = row[j : j + 8]
    target = row[first + low : first + high]
    for i in range(len(target)):
        half = a[i] * by_a + b[i] * by_b + c[i] * by_c + d[i] * by_d
        target[i] -= half + e[i] * by_e + f[i] * by_f + g[i] * by_g + h[i] * by_h


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _take_one(panel, low, high, j, row, first):  # type: ignore[no-untyped-def]
    column, known, target = panel[low:high, j], row[j], row[first + low : first + high]
    for i in range(len(target)):
        target[i] -= column[i] * known


@njit(cache=True, nogil=True)
def _take_columns(panel, low, high, begin, end, rows, first):  # type: ignore[no-untyped-def]
    """Take columns ``begin`` to ``end`` off every row, at the panel's rows ``low`` to ``high``."""
    whole = end - (end - begin) % 8
    for j in range(begin, whole, 8):
        for k in range(len(rows)):
            _take_eight(panel, low, high, j, rows[k], first)
    for j in range(whole, end):
        for k in range(len(rows)):
            _take_one(panel, low, high, j, rows[k], first)


@njit(cache=True, nogil=True, parallel=True)
def take_panel(panel: NDArray[np.floating], first: int, rows: NDArray[np.floating]) -> None:
    """Entries of ``inverse(L) right`` at a panel's rows, those before them being known.

    Parameters
    ----------
    panel : (height, first + height), column order: the rows of L from ``first`` on
    rows : (width, at least first + height), changed in place
    """
    height = panel.shape[0]
    for index in prange(SHARES):
        share = np.int64(index)
        low, high = height * share // SHARES, height * (share + 1) // SHARES
        _take_columns(panel, low, high, 0, first, rows, first)
    for begin in range(0, height, 8):
        end = min(begin + 8, height)
        for j in range(begin, end):
            for k in range(len(rows)):
                rows[k, first + j] /= panel[j, first + j]
                _take_one(panel, j + 1, end, first + j, rows[k], first)
        _take_columns(panel, end, height, first + begin, first + end, rows, first)


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _dot_four(panel, low, j, row, first):  # type: ignore[no-untyped-def]
    """Take off entries j to j + 3 the products of their columns with what is known below."""
    a, b, c, d = panel[low:, j], panel[low:, j + 1], panel[low:, j + 2], panel[low:, j + 3]
    known = row[first + low : first + len(panel)]
    sum_a, sum_b, sum_c, sum_d = row[j : j + 4]
    for i in range(len(known)):
        sum_a -= a[i] * known[i]
        sum_b -= b[i] * known[i]
        sum_c -= c[i] * known[i]
        sum_d -= d[i] * known[i]
    row[j], row[j + 1], row[j + 2], row[j + 3] = sum_a, sum_b, sum_c, sum_d


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _dot_one(panel, low, high, j, row, first):  # type: ignore[no-untyped-def]
    column, known, total = panel[low:high, j], row[first + low : first + high], row[j]
    for i in range(len(known)):
        total -= column[i] * known[i]
    row[j] = total


@njit(cache=True, nogil=True, parallel=True)
def take_panel_back(panel: NDArray[np.floating], first: int, rows: NDArray[np.floating]) -> None:
    """Entries of ``inverse(L') right`` at a panel's rows, and take them off those before.

    Parameters as of `take_panel`; what lies behind these rows was taken off already.
    """
    height = panel.shape[0]
    for begin in range((height - 1) // 4 * 4, -1, -4):
        end = min(begin + 4, height)
        for k in range(len(rows)):
            if end < height:
                _dot_four(panel, end, first + begin, rows[k], first)
            for j in range(end - 1, begin - 1, -1):
                _dot_one(panel, j + 1, end, first + j, rows[k], first)
                rows[k, first + j] /= panel[j, first + j]
    for index in prange(SHARES):
        share = np.int64(index)
        left, right = first * share // SHARES, first * (share + 1) // SHARES
        whole = right - (right - left) % 4
        for j in range(left, whole, 4):
            for k in range(len(rows)):
                _dot_four(panel, 0, j, rows[k], first)
        for j in range(whole, right):
            for k in range(len(rows)):
                _dot_one(panel, 0, height, j, rows[k], first)
