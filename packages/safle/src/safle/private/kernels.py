"""Integers modulo ``2^(8 w)`` as byte planes, and the free entries of a packed triangle.

A vector is cut into tiles of `TILE` entries; a tile of n entries of w bytes holds their n lowest
bytes, then their n next ones, and so on. Adding plane by plane keeps every lane of the processor
busy for any width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start

TILE = 8192
RUN = 4 * TILE
"""Entries that are worked on at a time: tiles enough to make the calls cheap, and cached."""


@njit(cache=True, nogil=True)
def add_tiles(
    target: NDArray[np.uint8],
    stream: NDArray[np.uint8],
    size: int,
    width: int,
    carry: NDArray[np.uint8],
    subtract: bool = False,
) -> None:
    """``target += stream``, both tiles of ``size`` entries of ``width`` bytes in all; or -=."""
    # Modulo 2^(8 w), a - b is the complement of what the complement of a and b add up to.
    flip = np.uint8(255 if subtract else 0)
    for first in range(0, size, TILE):
        tile = min(TILE, size - first)
        carry[:tile] = 0
        for plane in range(width):
            at = first * width + plane * tile
            totals, added = target[at : at + tile], stream[at : at + tile]
            for k in range(tile):
                before = np.uint8(totals[k] ^ flip)
                half = np.uint8(before + added[k])
                whole = np.uint8(half + carry[k])
                carry[k] = np.uint8(half < before) | np.uint8(whole < half)
                totals[k] = np.uint8(whole ^ flip)


@njit(cache=True, nogil=True, parallel=True)
def write_planes(values: NDArray[Any], width: int, target: NDArray[np.uint8]) -> None:
    """Integers modulo ``2^(8 width)`` into tiles."""
    for index in prange((len(values) + TILE - 1) // TILE):
        first = np.int64(index) * TILE
        tile = values[first : first + TILE]
        size = len(tile)
        for plane in range(width):
            at = first * width + plane * size
            for k in range(size):
                target[at + k] = np.uint8((np.int64(tile[k]) >> (8 * plane)) & 255)


@njit(cache=True, nogil=True, parallel=True)
def read_planes(source: NDArray[np.uint8], width: int, low: int, values: NDArray[np.int64]) -> None:
    """The inverse: of all integers that are equal modulo ``2^(8 width)`` the first from ``low``."""
    for index in prange((len(values) + TILE - 1) // TILE):
        first = np.int64(index) * TILE
        tile = values[first : first + TILE]
        size = len(tile)
        for k in range(size):
            raw = np.uint64(0)
            for plane in range(width):
                raw |= np.uint64(source[first * width + plane * size + k]) << np.uint64(8 * plane)
            above = raw - np.uint64(low)
            if width < 8:
                above &= (np.uint64(1) << np.uint64(8 * width)) - np.uint64(1)
            tile[k] = np.int64(above + np.uint64(low))


@njit(cache=True, nogil=True, inline="always")
def _place(row, column, dim):  # type: ignore[no-untyped-def]
    return start(min(row, column), dim) + max(row, column)


@njit(cache=True, nogil=True, parallel=True)
def gather(
    gram: NDArray[Any],
    dim: int,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    firsts: NDArray[np.int64],
    starts: NDArray[np.int64],
    values: NDArray[Any],
) -> None:
    """``values[starts_r ...] = gram[rows_r, columns[firsts_r:]]``; place -1 is a code not seen."""
    for index in prange(len(rows)):
        row = np.int64(index)
        at = starts[row] - firsts[row]
        for k in range(firsts[row], len(columns)):
            seen = rows[row] >= 0 and columns[k] >= 0
            values[at + k] = gram[_place(rows[row], columns[k], dim)] if seen else 0


@njit(cache=True, nogil=True, parallel=True)
def scatter(
    gram: NDArray[np.int64],
    dim: int,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    firsts: NDArray[np.int64],
    starts: NDArray[np.int64],
    values: NDArray[np.int64],
) -> None:
    """The inverse of `gather` over a whole layout."""
    for index in prange(len(rows)):
        row = np.int64(index)
        at = starts[row] - firsts[row]
        for k in range(firsts[row], len(columns)):
            gram[_place(rows[row], columns[k], dim)] = values[at + k]


@njit(cache=True, nogil=True)
def derive(
    gram: NDArray[np.int64],
    dim: int,
    bases: NDArray[np.int64],
    constants: NDArray[np.int64],
    scales: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Fill in what follows from the free entries and the totals of the columns.

    Of each expert the first code is what the others leave of a column's total; a code occurs
    with itself as often as it occurs; a constant column repeats the totals.
    """
    codes = bases[-1]
    for code in range(codes):
        gram[_place(code, code, dim)] = totals[code]
    # First codes with all that is free, and then with each other.
    for again in range(2):
        for expert in range(len(bases) - 1):
            first, end = bases[expert], bases[expert + 1]
            other = 0
            for column in range(dim):
                while other < len(bases) - 2 and column >= bases[other + 1]:
                    other += 1
                is_first = column < codes and column == bases[other]
                if first <= column < end or is_first != (again == 1):
                    continue
                left = totals[column]
                for code in range(first + 1, end):
                    left -= gram[_place(code, column, dim)]
                gram[_place(first, column, dim)] = left
    for at in range(len(constants)):
        for column in range(dim):
            gram[_place(constants[at], column, dim)] = scales[at] * totals[column]
