"""Sums of products of dense columns, exactly: ``gram[i, j] += sum_s x_si x_sj``.

Integers multiplied as integers, in bytes where the codes have few bits, else in 16 bits:
``_native/products.c``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

SAMPLES = 4_096
"""At a time: their copies as panels are all the memory this takes, beside some tiles."""
FLOAT32_EXACT = 1 << 24
INT16_MOST, INT32_MOST = (1 << 15) - 1, (1 << 31) - 1
MOST_BYTE = 31
"""Largest code that is multiplied as a byte: 17 pairs of products fit 16 bits."""
PANEL = 48
TILE = 3 * PANEL
"""Columns whose sums, with one another, stay in L2 beside what they are made of."""
BYTES_PER_WORD, HALVES_PER_WORD = 4, 2
_pack = Kernel(
    "pack",
    "dense i2[samples, dim]",
    "samples",
    "dim",
    "per_word",
    f"panels u4[panel_count, groups, {PANEL}]!",
    "panel_count",
    "groups",
    pieces="groups",
)
_add_tiles = Kernel(
    "add_tiles",
    f"panels u4[panel_count, groups, {PANEL}]",
    "groups",
    "wide",
    "pairs i8[pair_count, 3]",
    "gram i4|i8[packed(dim)]!",
    "dim",
    f"tile i8[{TILE * TILE}]~",
    pieces="pair_count",
)


def exact_product(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.int64]:
    """``left.T @ right`` of integers, int64, (left columns, right columns)."""
    largest = float(np.abs(left).max(initial=0)) * float(np.abs(right).max(initial=0))
    if largest * len(left) < FLOAT32_EXACT:
        return (left.T @ right).astype(np.int64)
    return (left.T.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)


def add_products(gram: NDArray[np.int64], dense: NDArray[np.int16]) -> None:
    """Add the products of dense columns to their part of a gram.

    Parameters
    ----------
    gram : int64, packed triangle of the dense columns alone, changed in place
    dense : int16, (samples, dense_dim)

    Examples
    --------
    >>> gram = np.zeros(3, np.int64)
    >>> add_products(gram, np.array([[1, 2], [3, 4]], np.int16))
    >>> gram
    array([10, 14, 20])
    """
    for first in range(0, len(dense), SAMPLES):
        _add_integers(gram, dense[first : first + SAMPLES])


def _add_integers(gram: NDArray[np.int64], dense: NDArray[np.int16]) -> None:
    ranges = _tile_ranges(dense)
    tops, lefts = np.triu_indices(len(ranges))
    largest = np.abs(ranges).max(axis=1)
    # Of two neighbours, the most that their products can add up to.
    pair = 2 * np.maximum(largest[tops] * largest[lefts], 1)
    narrow = (ranges[:, 0] == 0) & (ranges[:, 1] <= MOST_BYTE)
    bytes_only = narrow[tops] & narrow[lefts]
    for wide, chosen in ((False, bytes_only), (True, ~bytes_only)):
        if not chosen.any():
            continue
        panels = _pack_panels(dense, HALVES_PER_WORD if wide else BYTES_PER_WORD)
        depth = (INT32_MOST if wide else INT16_MOST) // pair
        pairs = np.stack([tops, lefts, depth], axis=1)[chosen]
        _add_tile_pairs(panels, wide, pairs, gram, dense.shape[1])


def _tile_ranges(dense: NDArray[np.int16]) -> NDArray[np.int64]:
    """Smallest and largest value of every `TILE` columns, 0 included; int64, (tiles, 2)."""
    lows, highs = dense.min(axis=0, initial=0), dense.max(axis=0, initial=0)
    firsts = np.arange(0, dense.shape[1], TILE)
    ranges = np.minimum.reduceat(lows, firsts), np.maximum.reduceat(highs, firsts)
    return np.stack(ranges, axis=1).astype(np.int64)


def _pack_panels(dense: NDArray[np.int16], per_word: int) -> NDArray[np.uint32]:
    """Panels of ``dense``, uint32, (panels, groups, PANEL), ``per_word`` samples per group.

    Whole tiles of panels and whole groups: columns and samples that are not there are zero.
    """
    samples, dim = dense.shape
    count = -(-dim // TILE) * (TILE // PANEL)
    panels = np.empty((count, -(-samples // per_word), PANEL), np.uint32)
    _pack(dense, per_word, panels, nanoseconds=dense.size)
    return panels


def _add_tile_pairs(
    panels: NDArray[np.uint32],
    wide: bool,
    pairs: NDArray[np.int64],
    gram: NDArray[np.signedinteger[Any]],
    dim: int,
) -> None:
    """Add the products of pairs of tiles to a packed triangle.

    Parameters
    ----------
    panels : as `_pack_panels` makes them, of int16 if ``wide``, else of bytes
    pairs : int64, (pairs, 3): upper tile, left tile, not before it, and how many groups of samples
        may be added before a sum could leave its 16 or 32 bits
    gram : packed triangle, changed in place; dim : its columns
    """
    tiles = len(panels) * PANEL // TILE
    if len(pairs) and not (
        pairs[:, 0].min() >= 0 and (pairs[:, 0] <= pairs[:, 1]).all() and pairs[:, 1].max() < tiles
        and pairs[:, 2].min() > 0 and dim <= tiles * TILE
    ):  # fmt: skip
        raise IndexError("a pair of tiles is not of the panels, or not in the triangle")
    work = len(pairs) * panels.shape[1] * TILE * TILE / 16
    _add_tiles(panels, int(wide), pairs, gram, dim, nanoseconds=work)
