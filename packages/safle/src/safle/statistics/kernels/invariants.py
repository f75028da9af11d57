"""Checks of the algebra that counts obey, over a packed gram: ``_native/check.c``.

Each returns (row, column) of the first violation it meets, or (-1, -1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

_find_broken_pair = Kernel(
    "find_broken_pair",
    "offsets i8[experts + 1] <dim + 1",
    "experts",
    "dim",
    "gram i4|i8[packed(dim)]",
    "diagonal i8[dim]",
    "found i8[experts, 2]!",
    "column_sums i8[offsets[-1]]~",
    pieces="experts",
)
_find_impossible = Kernel(
    "find_impossible",
    "gram i4|i8[packed(dim)]",
    "dim",
    "first_column",
    "low i8[dim]",
    "high i8[dim]",
    "total i8[dim]",
    "power i8[dim]",
    "n",
    "narrow",
    "found i8[dim]!",
    pieces="dim",
)


def find_broken_pair(
    offsets: NDArray[np.int64],
    gram: NDArray[np.signedinteger[Any]],
    diagonal: NDArray[np.int64],
) -> tuple[int, int]:
    """First (row, column) where a block of two experts does not add up."""
    found = np.full((len(offsets) - 1, 2), -1, np.int64)
    _find_broken_pair(offsets, gram, diagonal, found, nanoseconds=len(gram))
    broken = np.flatnonzero(found[:, 0] >= 0)
    row, column = found[broken[0]].tolist() if len(broken) else (-1, -1)
    return row, column


def find_impossible(
    gram: NDArray[np.signedinteger[Any]],
    first: int,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    total: NDArray[np.int64],
    power: NDArray[np.int64],
    samples: int,
) -> tuple[int, int]:
    """First (row, column) with column >= ``first`` that no samples have, exactly.

    ``(x - l)(y - m) >= 0`` and its three kin, summed over the samples, and Cauchy's and Schwarz's
    inequality. ``power`` is the diagonal, and not negative.
    """
    found = np.full(len(low), -1, np.int64)
    reach = int(max(np.abs(low).max(initial=1), np.abs(high).max(initial=1)))
    # Such sums have an entry and three products, which then fit 64 bits.
    narrow = 4 * samples * reach**2 < 1 << 62 and int(power.max(initial=0)) < 1 << 62
    _find_impossible(
        gram, first, low, high, total, power, samples, int(narrow), found,
        nanoseconds=3 * len(gram),
    )  # fmt: skip
    rows = np.flatnonzero(found >= 0)
    return (int(rows[0]), int(found[rows[0]])) if len(rows) else (-1, -1)
