"""The free entries of a gram, ordered by how large they should be and packed into bytes.

Entry (i, j) of two experts is expected near ``c_i c_j / n``. Entries of like expectation
are alike, so they are kept together, one stream per *context* ``q(c_i) + q(c_j)``, and
packed several to a byte. A row's entries of one context are whole bytes, so that rows
are packed and unpacked in parallel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start
from safle.wire.kernels.bits import SPARE, bytes_of, join, split


@njit(cache=True, nogil=True)
def row_starts(
    experts_of: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    bits: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where each kept row's entries lie.

    Parameters
    ----------
    experts_of, classes_of : int64, (rows,), expert and class q(c) of the rows sent
    bits : int64, (contexts,), bits per entry; 2 * class_count - 1 contexts

    Returns
    -------
    starts : int64, (rows, class_count): byte of row r's first entry whose column has
        class q, from the beginning of the stream of context classes_of[r] + q
    lengths : int64, (rows, class_count): how many such entries there are
    sizes : int64, (contexts,), bytes of each stream
    """
    rows, class_count = len(classes_of), (len(bits) + 1) // 2
    starts = np.empty((rows, class_count), np.int64)
    lengths = np.empty((rows, class_count), np.int64)
    sizes = np.zeros(len(bits), np.int64)
    after = np.zeros(class_count, np.int64)
    for row in range(rows):
        after[classes_of[row]] += 1
    first = 0
    while first < rows:
        last = first
        while last < rows and experts_of[last] == experts_of[first]:
            after[classes_of[last]] -= 1
            last += 1
        for row in range(first, last):
            for q in range(class_count):
                context = classes_of[row] + q
                starts[row, q] = sizes[context]
                lengths[row, q] = after[q]
                sizes[context] += (after[q] * bits[context] + 7) // 8
        first = last
    return starts, lengths, sizes


# Rows are taken apart a few hundred entries at a time, where slicing would cost as much as
# the work: inner functions take whole arrays and uint64 places, which need no sign check.


@njit(cache=True, nogil=True)
def _gather(gram, base, members, first, count, most, entries):  # type: ignore[no-untyped-def]
    """Some entries of one row, at most ``most``; returns how many reach it.

    Those below zero, which no samples have, are continued like those that are too large.
    """
    # In the gram's own integers: twice as fast as in wider ones.
    limit, over = gram.dtype.type(most), np.int32(0)
    base, first = np.uint64(base), np.uint64(first)
    for index in range(np.uint64(count)):
        value = gram[base + members[first + index]]
        outside = (value >= limit) | (value < 0)
        over += np.int32(outside)
        entries[index] = np.uint8(limit if outside else value)
    return np.int64(over)


@njit(cache=True, nogil=True)
def _scatter(entries, members, first, count, gram, base):  # type: ignore[no-untyped-def]
    base, first = np.uint64(base), np.uint64(first)
    for index in range(np.uint64(count)):
        gram[base + members[first + index]] = entries[index]


class Rows(NamedTuple):
    """Which entries of which rows are sent, and where they go.

    Attributes
    ----------
    kept : int64, (rows,), gram rows that are sent, ascending
    classes_of : int64, (rows,), magnitude of each kept row's count, from the least one
    members : uint32, (rows,), kept rows sorted by that class; class q ends at class_ends[q]
    starts, lengths : int64, (rows, class_count), first byte and number of entries
    bits : int64, (contexts,), bits per entry; the largest value means "that or more"
    """

    kept: NDArray[np.int64]
    classes_of: NDArray[np.int64]
    members: NDArray[np.uint32]
    class_ends: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    bits: NDArray[np.int64]


@njit(cache=True, nogil=True, parallel=True)
def pack_rows(
    gram: NDArray[np.integer],
    dim: int,
    rows: Rows,
    packed: NDArray[np.uint8],
    overflows: NDArray[np.int64],
) -> None:
    """Pack every rows.kept row; count the entries that do not fit their bits.

    Parameters
    ----------
    packed : uint8, written
    overflows : int64, (rows,), written
    """
    for index in prange(len(rows.kept)):
        row = np.int64(index)
        base = start(rows.kept[row], dim)
        entries = np.empty(len(rows.members) + SPARE, np.uint8)
        over = np.int64(0)
        for q in range(len(rows.class_ends)):
            count, width = rows.lengths[row, q], rows.bits[rows.classes_of[row] + q]
            if count:
                most = (1 << width) - 1
                over += _gather(
                    gram, base, rows.members, rows.class_ends[q] - count, count, most, entries
                )
                for place in range(np.uint64(count), np.uint64(count + SPARE)):
                    entries[place] = 0
                join(entries, count, width, packed, rows.starts[row, q])
        overflows[row] = over


@njit(cache=True, nogil=True, parallel=True)
def excess_of_rows(
    gram: NDArray[np.integer],
    dim: int,
    rows: Rows,
    packed: NDArray[np.uint8],
    firsts: NDArray[np.int64],
    excess: NDArray[np.int64],
) -> None:
    """What did not fit, ``entry - most``, by row, class and column; row r at ``firsts[r]``."""
    for index in prange(len(rows.kept)):
        row = np.int64(index)
        at = firsts[row]
        if at == firsts[row + 1]:
            continue
        base = start(rows.kept[row], dim)
        entries = np.empty(len(rows.members) + SPARE, np.uint8)
        for q in range(len(rows.class_ends)):
            count, width = rows.lengths[row, q], rows.bits[rows.classes_of[row] + q]
            most, first = (1 << width) - 1, rows.class_ends[q] - count
            split(entries, count, width, packed, rows.starts[row, q])
            for place in range(count):
                if entries[place] == most:
                    excess[at] = gram[base + rows.members[first + place]] - most
                    at += 1


@njit(cache=True, nogil=True)
def _add_excess(entries, members, first, count, bits, excess, at, gram, base):  # type: ignore[no-untyped-def]
    """Continue the entries that fill their bits; returns the place after the last one used.

    A place beyond the excess says that the bytes are no row's: there is too little of it,
    or the padding is not zero, which would be another text of the same counts.
    """
    most = (1 << bits) - 1
    for place in range(count):
        if entries[place] == most:
            if at >= len(excess):
                return at + 1
            gram[base + members[first + place]] += excess[at]
            at += 1
    for place in range(count, 8 // bits * bytes_of(count, bits)):
        if entries[place]:
            return len(excess) + 1
    return at


@njit(cache=True, nogil=True)
def _unpack_row(rows, row, packed, entries, excess, at, gram, base):  # type: ignore[no-untyped-def]
    """Fill in the columns of one row that were sent; the place after the last excess used."""
    for q in range(len(rows.class_ends)):
        count, width = rows.lengths[row, q], rows.bits[rows.classes_of[row] + q]
        if count:
            first = rows.class_ends[q] - count
            split(entries, count, width, packed, rows.starts[row, q])
            _scatter(entries, rows.members, first, count, gram, base)
            at = _add_excess(entries, rows.members, first, count, width, excess, at, gram, base)
    return at


@njit(cache=True, nogil=True)
def _complete_row(dropped, offsets, expert, count, target, missing):  # type: ignore[no-untyped-def]
    """Fill in the dropped columns of one row; returns its least entry."""
    least = np.int64(0)
    for other in range(expert + 1, len(dropped)):
        target[dropped[other]] = 0
        block = target[offsets[other] : offsets[other + 1]]
        rest = count
        for k in range(len(block)):
            rest -= block[k]
        target[dropped[other]] = rest
        least = min(least, rest)
    first = offsets[expert + 1]
    row, left = target[first : offsets[-1]], missing[first:]
    for k in range(len(left)):
        left[k] -= row[k]
    return least


@njit(cache=True, nogil=True, parallel=True)
def unpack_rows(
    gram: NDArray[np.integer],
    dim: int,
    offsets: NDArray[np.int64],
    dropped: NDArray[np.int64],
    diagonal: NDArray[np.int64],
    rows: Rows,
    packed: NDArray[np.uint8],
    firsts: NDArray[np.int64],
    excess: NDArray[np.int64],
) -> bool:
    """The inverse of `pack_rows`, with everything that the margins determine filled in.

    Returns whether every row uses just its excess, its padding is zero and no entry
    comes out negative.

    Parameters
    ----------
    offsets : int64, (experts + 1,), first gram row of each expert
    dropped : int64, (experts,), the row of each expert that was not sent
    diagonal : int64, (seen,)
    """
    experts = len(dropped)
    good = np.zeros(experts, np.bool_)
    for index in prange((experts + 1) // 2):
        for side in range(2):
            expert = np.int64(index) if side == 0 else experts - 1 - np.int64(index)
            missing = diagonal.copy()
            entries = np.empty(len(rows.members) + SPARE, np.uint8)
            sound = True
            row = offsets[expert] - expert
            for column in range(offsets[expert], offsets[expert + 1]):
                base = start(column, dim)
                gram[base + column + 1 : base + offsets[expert + 1]] = 0
                if column == dropped[expert]:
                    continue
                at = _unpack_row(rows, row, packed, entries, excess, firsts[row], gram, base)
                sound &= at == firsts[row + 1]
                target, total = gram[base:], diagonal[column]
                sound &= _complete_row(dropped, offsets, expert, total, target, missing) >= 0
                row += 1
            target = gram[start(dropped[expert], dim) :]
            for column in range(offsets[expert + 1], offsets[experts]):
                target[column] = missing[column]
                sound &= missing[column] >= 0
            good[expert] = sound
    return bool(good.all())
