"""Counting: codes and labels -> sums, added to arrays in place.

Sums of integers do not depend on where one batch ends and the next begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Codes, Layout
from safle.statistics.kernels import count as kernels
from safle.statistics.kernels import triangle
from safle.statistics.products import add_products

SMALLEST_PASS, LARGEST_PASS = 2_048, 8_192
"""Samples counted in one pass over the gram: their one-hot rows for a block of columns
should stay in the L2 cache, and enough of them should meet in a row to pay for it."""
ROWS_WORTH_A_PASS = 128
WIDE_TABLE = 160
"""Mean seen symbols per expert above which single increments beat added rows."""


def seen_codes(symbols: NDArray[Any], layout: Layout) -> NDArray[np.int64]:
    """Codes that occur in ``symbols``, (samples, experts): int64, ascending."""
    seen = np.zeros(layout.code_count, np.bool_)
    # A class's few samples are counted often: threads that have nothing to do are not woken.
    if layout.experts:
        kernels.mark_seen(symbols, layout.bases, seen)
    return np.flatnonzero(seen)


def largest_square(codes: Codes, layout: Layout) -> int:
    """A bound on the diagonal of the gram of these codes."""
    narrow = np.array([max(-low, high) <= 255 for low, high in layout.dense_limits], np.bool_)
    wide = codes.dense[:, ~narrow].astype(np.float64)
    # Sums of squares of 16-bit integers are exact in float64 for as many samples as these.
    return max(255**2 * len(codes), int(np.einsum("sf,sf->f", wide, wide).max(initial=0)))


def rows_of(symbols: NDArray[Any], layout: Layout, codes: NDArray[np.int64]) -> NDArray[np.int32]:
    """Symbols as rows of a gram over ``codes``, int32, (experts, samples)."""
    ranks = np.zeros(layout.code_count, np.int32)
    ranks[codes] = np.arange(len(codes))
    rows = np.empty((layout.experts, len(symbols)), np.int32)
    if layout.experts:
        kernels.to_columns(symbols, layout.bases, ranks, rows)
    return rows


def add_gram(
    gram: NDArray[np.signedinteger[Any]],
    rows: NDArray[np.int32],
    dense: NDArray[np.int16],
    offsets: NDArray[np.int64],
) -> None:
    """``gram += Phi'Phi``.

    Parameters
    ----------
    gram : packed triangle of seen codes and dense columns, changed in place
    rows : int32, (experts, samples), from `rows_of`
    dense : int16, (samples, dense_dim)
    offsets : int64, (experts + 1,), first row of each expert
    """
    experts, width = len(rows), dense.shape[1]
    if experts:
        mean_size = int(offsets[-1]) // experts
        size = int(np.clip(ROWS_WORTH_A_PASS * mean_size, SMALLEST_PASS, LARGEST_PASS))
        for first in range(0, len(dense), size):
            part = slice(first, first + size)
            _add_symbols(gram, np.ascontiguousarray(rows[:, part]), dense[part], offsets)
    if width:
        add_products(gram[-triangle.packed_size(width) :], dense)


def _add_symbols(
    gram: NDArray[np.signedinteger[Any]],
    rows: NDArray[np.int32],
    dense: NDArray[np.int16],
    offsets: NDArray[np.int64],
) -> None:
    seen, dim = int(offsets[-1]), int(offsets[-1]) + dense.shape[1]
    order, starts = kernels.group_samples(rows, offsets)
    single = seen > WIDE_TABLE * len(rows)
    pairs = kernels.count_single_pairs if single else kernels.count_block_pairs
    pairs(rows, offsets, order, starts, dim, gram)
    kernels.count_diagonal(rows, dim, gram)
    if dense.shape[1]:
        kernels.count_mixed(offsets, order, starts, dense, dim, gram)


def add_cross(
    cross: NDArray[np.int64],
    rows: NDArray[np.int32],
    dense: NDArray[np.int16],
    labels: NDArray[np.int64],
) -> None:
    """``cross += Phi'Y``, int64, (dim, class_count), in place; labels are its columns."""
    seen = len(cross) - dense.shape[1]
    if len(rows):
        kernels.count_labels(rows, labels, cross[:seen])
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(cross.shape[1]), side="right")
    kernels.sum_by_class(dense, order, ends, cross[seen:])
