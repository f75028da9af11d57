"""The free entries of a gram, ordered by how large they should be and packed into bytes.

Entry (i, j) of two experts is expected near ``c_i c_j / n``. Entries of like expectation
are alike, so they are kept together, one stream per *context* ``q(c_i) + q(c_j)``, and
packed several to a byte. A row's entries of one context are whole bytes, so that rows
are packed and unpacked in parallel.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.kernels.triangle import start


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
    bits : int64, (contexts,), bits an entry; 2 * class_count - 1 contexts

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


@njit(cache=True, nogil=True)
def _pack(row, columns, bits, packed):  # type: ignore[no-untyped-def]
    """Entries of one row and context into bytes; returns how many do not fit their bits."""
    most = (np.int64(1) << bits) - 1
    per_byte = 8 // bits
    over = np.int64(0)
    whole = len(columns) // per_byte
    for index in range(whole):
        byte = np.int64(0)
        for k in range(per_byte):
            value = np.int64(row[columns[index * per_byte + k]])
            over += value >= most
            byte |= min(value, most) << (bits * k)
        packed[index] = byte
    for index in range(whole * per_byte, len(columns)):
        value = np.int64(row[columns[index]])
        over += value >= most
        packed[whole] |= np.uint8(min(value, most) << (bits * (index - whole * per_byte)))
    return over


@njit(cache=True, nogil=True, parallel=True)
def pack_rows(
    gram: NDArray[np.integer],
    dim: int,
    kept: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    members: NDArray[np.int64],
    class_ends: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    bits: NDArray[np.int64],
    packed: NDArray[np.uint8],
    overflows: NDArray[np.int64],
) -> None:
    """Pack every kept row; count the entries that do not fit their bits.

    Parameters
    ----------
    kept : int64, (rows,), gram rows that are sent, ascending
    members : int64, (rows,), the same sorted by class; class q ends at class_ends[q]
    starts, lengths : int64, (rows, class_count), first byte and number of entries
    bits : int64, (contexts,), bits an entry; the largest value means "that or more"
    packed : uint8, all zero, written
    overflows : int64, (rows,), written
    """
    for index in prange(len(kept)):
        row = np.int64(index)
        source = gram[start(kept[row], dim) :]
        over = np.int64(0)
        for q in range(len(class_ends)):
            columns = members[class_ends[q] - lengths[row, q] : class_ends[q]]
            over += _pack(source, columns, bits[classes_of[row] + q], packed[starts[row, q] :])
        overflows[row] = over


@njit(cache=True, nogil=True, parallel=True)
def excess_of_rows(
    gram: NDArray[np.integer],
    dim: int,
    kept: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    members: NDArray[np.int64],
    class_ends: NDArray[np.int64],
    lengths: NDArray[np.int64],
    bits: NDArray[np.int64],
    firsts: NDArray[np.int64],
    excess: NDArray[np.int64],
) -> None:
    """What did not fit, ``entry - most``, by row, class and column; row r at ``firsts[r]``."""
    for index in prange(len(kept)):
        row = np.int64(index)
        at, last = firsts[row], firsts[row + 1]
        source = gram[start(kept[row], dim) :]
        for q in range(len(class_ends)):
            most = (np.int64(1) << bits[classes_of[row] + q]) - 1
            for position in range(class_ends[q] - lengths[row, q], class_ends[q]):
                if at == last:
                    break
                value = np.int64(source[members[position]])
                if value >= most:
                    excess[at] = value - most
                    at += 1


@njit(cache=True, nogil=True)
def _unpack(packed, columns, bits, excess, at, row):  # type: ignore[no-untyped-def]
    """The inverse of `_pack` with its excess; returns the place after the last one used."""
    most = (np.int64(1) << bits) - 1
    per_byte = 8 // bits
    for index in range(len(columns)):
        place = index // per_byte
        value = (np.int64(packed[place]) >> (bits * (index - place * per_byte))) & most
        full = np.int64(value == most)
        # Reading past the last excess is harmless (one place is spare) and cheaper than
        # a branch that is taken at random.
        row[columns[index]] = value + full * excess[min(at, len(excess) - 1)]
        at += full
    over = len(columns) % per_byte
    if over and packed[len(columns) // per_byte] >> (bits * over):
        # The padding is not zero: another text of the same counts.
        return at + len(excess)
    return at


@njit(cache=True, nogil=True)
def _complete_row(dropped, offsets, expert, count, target, missing):  # type: ignore[no-untyped-def]
    """Fill in the dropped columns of one row; returns its least entry."""
    least = np.int64(0)
    for other in range(expert + 1, len(dropped)):
        rest = count
        target[dropped[other]] = 0
        for column in range(offsets[other], offsets[other + 1]):
            rest -= target[column]
            missing[column] -= target[column]
        target[dropped[other]] = rest
        missing[dropped[other]] -= rest
        least = min(least, rest)
    return least


@njit(cache=True, nogil=True, parallel=True)
def unpack_rows(
    gram: NDArray[np.integer],
    dim: int,
    offsets: NDArray[np.int64],
    dropped: NDArray[np.int64],
    diagonal: NDArray[np.int64],
    classes_of: NDArray[np.int64],
    members: NDArray[np.int64],
    class_ends: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    bits: NDArray[np.int64],
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
    excess : int64, with one spare place at its end
    """
    experts = len(dropped)
    good = np.zeros(experts, np.bool_)
    for index in prange((experts + 1) // 2):
        for side in range(2):
            expert = np.int64(index) if side == 0 else experts - 1 - np.int64(index)
            missing = diagonal.copy()
            sound = True
            row = offsets[expert] - expert
            for column in range(offsets[expert], offsets[expert + 1]):
                if column == dropped[expert]:
                    continue
                target = gram[start(column, dim) :]
                at = firsts[row]
                for q in range(len(class_ends)):
                    columns = members[class_ends[q] - lengths[row, q] : class_ends[q]]
                    at = _unpack(
                        packed[starts[row, q] :],
                        columns,
                        bits[classes_of[row] + q],
                        excess,
                        at,
                        target,
                    )
                sound &= at == firsts[row + 1]
                count = diagonal[column]
                sound &= _complete_row(dropped, offsets, expert, count, target, missing) >= 0
                row += 1
            target = gram[start(dropped[expert], dim) :]
            for column in range(offsets[expert + 1], offsets[experts]):
                target[column] = missing[column]
                sound &= missing[column] >= 0
            good[expert] = sound
    return bool(good.all())
