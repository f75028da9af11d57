"""The gram's expert blocks on the wire: only what the margins leave free, by expectation.

The most frequent code of every expert is not sent: the margins give it back. The rest is
kept in streams of like expectation and packed 8, 4, 2 or 1 to a byte; an entry that does
not fit its bits is continued in ``excess``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.wire.kernels import rows as kernels


@dataclass(frozen=True)
class Streams:
    """Which entries are sent and where they go: follows from the diagonal alone.

    Attributes
    ----------
    rows : gram rows that are sent
    dropped : the one of each expert that is not
    size : bytes of all streams
    """

    rows: kernels.Rows
    dropped: NDArray[np.int64]
    size: int


def magnitude(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """q(c) = floor(2 log2 c) of positive counts below 2**31, in integers."""
    squares = counts * counts
    # frexp gives the bit length exactly only below 2**53, so shift large ones down first.
    large = squares >= 1 << 52
    lengths = np.frexp(np.where(large, squares >> 32, squares).astype(np.float64))[1]
    return (lengths + np.where(large, 32, 0) - 1).astype(np.int64)


def entries_per_byte(magnitudes: int, sample_count: int) -> int:
    """How many entries share a byte where q(c_i) + q(c_j) is ``magnitudes``.

    By the entries' expectation, about ``2^((magnitudes + 1) / 2) / n``: up to 1/8, eight;
    up to 1/2, four; up to 4, two. Squared, so that it is a question of integers.
    """
    square, n_square = 1 << magnitudes + 1, sample_count**2
    if 64 * square <= n_square:
        return 8
    if 4 * square <= n_square:
        return 4
    return 2 if square <= 16 * n_square else 1


def plan(diagonal: NDArray[np.int64], offsets: NDArray[np.int64], sample_count: int) -> Streams:
    """The streams of a gram with these code counts, int64, (seen,)."""
    experts_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Most frequent first, lowest code on ties: the first of each expert is dropped.
    order = np.lexsort((np.arange(len(diagonal)), -diagonal, experts_of))
    dropped = order[offsets[:-1]].astype(np.int64)
    keep = np.ones(len(diagonal), bool)
    keep[dropped] = False
    kept = np.flatnonzero(keep)
    owners = experts_of[kept].astype(np.int64)
    magnitudes = magnitude(diagonal[kept])
    least = int(magnitudes.min(initial=62)) if len(kept) else 0
    classes_of = magnitudes - least
    contexts = range(2 * int(classes_of.max(initial=0)) + 1)
    bits = np.array(
        [8 // entries_per_byte(2 * least + context, sample_count) for context in contexts],
        np.int64,
    )
    starts, lengths, sizes = kernels.row_starts(owners, classes_of, bits)
    firsts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    starts += firsts[classes_of[:, None] + np.arange(starts.shape[1])]
    # Unsigned: an index that cannot be negative needs no check in the kernels' inner loop.
    members = kept[np.argsort(classes_of, kind="stable")].astype(np.uint32)
    class_ends = np.cumsum(np.bincount(classes_of, minlength=starts.shape[1]))
    rows = kernels.Rows(kept, classes_of, members, class_ends, starts, lengths, bits)
    return Streams(rows, dropped, int(firsts[-1]))


def pack_pairs(
    gram: NDArray[Any], dim: int, streams: Streams
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Packed streams, the number of entries in excess of each kept row, and the excess."""
    packed = np.empty(streams.size, np.uint8)
    overflows = np.zeros(len(streams.rows.kept), np.int64)
    kernels.pack_rows(gram, dim, streams.rows, packed, overflows)
    firsts = np.concatenate([[0], np.cumsum(overflows)]).astype(np.int64)
    excess = np.empty(int(firsts[-1]), np.int64)
    kernels.excess_of_rows(gram, dim, streams.rows, packed, firsts, excess)
    return packed, overflows, excess


def unpack_pairs(
    gram: NDArray[Any],
    dim: int,
    streams: Streams,
    offsets: NDArray[np.int64],
    diagonal: NDArray[np.int64],
    packed: NDArray[np.uint8],
    overflows: NDArray[np.int64],
    excess: NDArray[np.int64],
) -> bool:
    """Fill the expert blocks of ``gram``; whether they are whole and nowhere negative."""
    firsts = np.concatenate([[0], np.cumsum(overflows)]).astype(np.int64)
    return kernels.unpack_rows(
        gram, dim, offsets, streams.dropped, diagonal, streams.rows, packed, firsts, excess
    )
