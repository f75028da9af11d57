"""Sums of products of integer columns, one triangle of them: ``_native/products.c``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

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


def tile_ranges(dense: NDArray[np.int16]) -> NDArray[np.int64]:
    """Smallest and largest value of every `TILE` columns, 0 included; int64, (tiles, 2)."""
    lows, highs = dense.min(axis=0, initial=0), dense.max(axis=0, initial=0)
    firsts = np.arange(0, dense.shape[1], TILE)
    ranges = np.minimum.reduceat(lows, firsts), np.maximum.reduceat(highs, firsts)
    return np.stack(ranges, axis=1).astype(np.int64)


def pack(dense: NDArray[np.int16], per_word: int) -> NDArray[np.uint32]:
    """Panels of ``dense``, uint32, (panels, groups, PANEL), ``per_word`` samples per group.

    Whole tiles of panels and whole groups: columns and samples that are not there are zero.
    """
    samples, dim = dense.shape
    count = -(-dim // TILE) * (TILE // PANEL)
    panels = np.empty((count, -(-samples // per_word), PANEL), np.uint32)
    _pack(dense, per_word, panels, nanoseconds=dense.size)
    return panels


def add_tiles(
    panels: NDArray[np.uint32],
    wide: bool,
    pairs: NDArray[np.int64],
    gram: NDArray[np.signedinteger[Any]],
    dim: int,
) -> None:
    """Add the products of pairs of tiles to a packed triangle.

    Parameters
    ----------
    panels : as `pack` makes them, of int16 if ``wide``, else of bytes
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
