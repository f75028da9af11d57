"""Co-occurrence counts of codes, exact for any number of threads.

Row (a, v) of the gram is the sum of the one-hot rows of the samples whose expert a
has value v. Narrow experts are counted by adding dense rows of 4-bit counters
(`rows.sum_rows`: 256 columns in about 1.3 ns), wide ones by one increment a pair.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.rows import HALF, ROWS_PER_BYTE, WIDTH, WORDS, sum_rows
from safle.statistics.kernels.triangle import start


@njit(cache=True, nogil=True, parallel=True)
def to_columns(
    symbols: NDArray[np.unsignedinteger],
    bases: NDArray[np.int64],
    ranks: NDArray[np.int32],
    columns: NDArray[np.int32],
) -> None:
    """Transpose and renumber: ``columns[e, s] = ranks[bases[e] + symbols[s, e]]``.

    Parameters
    ----------
    symbols : uint8 or uint16, (samples, experts)
    bases : int64, (experts,), first code of each expert
    ranks : int32, (code_count,), position of a code among the seen ones
    columns : int32, (experts, samples), written
    """
    samples, experts = symbols.shape
    tile = 64
    for part in prange((experts + tile - 1) // tile):
        first = np.int64(part) * tile
        last = min(experts, first + tile)
        for sample in range(samples):
            for expert in range(first, last):
                columns[expert, sample] = ranks[bases[expert] + symbols[sample, expert]]


@njit(cache=True, nogil=True, parallel=True)
def mark_seen(
    symbols: NDArray[np.unsignedinteger], bases: NDArray[np.int64], seen: NDArray[np.bool_]
) -> None:
    """Set ``seen[bases[e] + symbols[s, e]]`` for every sample and expert."""
    samples, experts = symbols.shape
    tile = 64
    for part in prange((experts + tile - 1) // tile):
        first = np.int64(part) * tile
        for sample in range(samples):
            for expert in range(first, min(experts, first + tile)):
                seen[bases[expert] + symbols[sample, expert]] = True


@njit(cache=True, nogil=True, parallel=True)
def group_samples(
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
) -> None:
    """Sort each expert's samples by column.

    ``order[e, starts[c] : starts[c + 1]]`` are the samples in column c of expert e,
    where the last column of an expert ends at the sample count.

    Parameters
    ----------
    columns : int32, (experts, samples)
    offsets : int64, (experts + 1,), first column of each expert
    order : uint32, (experts, samples), written
    starts : int64, (column_count,), written
    """
    experts, samples = columns.shape
    for index in prange(experts):
        expert = np.int64(index)
        first, last = offsets[expert], offsets[expert + 1]
        cursor = np.zeros(last - first + 1, np.int64)
        for sample in range(samples):
            cursor[columns[expert, sample] - first + 1] += 1
        for value in range(last - first):
            cursor[value + 1] += cursor[value]
            starts[first + value] = cursor[value]
        for sample in range(samples):
            value = columns[expert, sample] - first
            order[expert, cursor[value]] = sample
            cursor[value] += 1


@njit(cache=True, nogil=True, inline="always")
def _end(starts, offsets, expert, column, samples):  # type: ignore[no-untyped-def]
    return starts[column + 1] if column + 1 < offsets[expert + 1] else samples


@njit(cache=True, nogil=True)
def _fill_rows(columns, offsets, left, rows):  # type: ignore[no-untyped-def]
    """One-hot codes of all samples for columns left .. left + WIDTH, a nibble each."""
    experts, samples = columns.shape
    rows[:] = 0
    cells = rows.view(np.uint8)
    for expert in range(experts):
        if offsets[expert + 1] <= left or offsets[expert] >= left + WIDTH:
            continue
        for sample in range(samples):
            column = columns[expert, sample] - left
            if 0 <= column < HALF:
                cells[sample, column] += np.uint8(1)
            elif HALF <= column < WIDTH:
                cells[sample, column - HALF] += np.uint8(16)


@njit(cache=True, nogil=True)
def _count_block(left, columns, offsets, order, starts, dim, gram):  # type: ignore[no-untyped-def]
    """All gram rows above column block left .. left + WIDTH."""
    experts, samples = columns.shape
    rows = np.empty((samples, WORDS), np.uint64)
    _fill_rows(columns, offsets, left, rows)
    sums = np.empty(2 * WORDS, np.uint64)
    counts = sums.view(np.uint8)
    right = min(left + WIDTH, offsets[experts])
    for expert in range(experts):
        first = max(left, offsets[expert + 1])
        if first >= right:
            break
        members = order[expert]
        visible = counts[first - left : right - left]
        for column in range(offsets[expert], offsets[expert + 1]):
            at = starts[column]
            end = _end(starts, offsets, expert, column, samples)
            base = start(column, dim) + left
            target = gram[base + first - left : base + right - left]
            while at < end:
                stop = min(end, at + ROWS_PER_BYTE)
                sum_rows(rows, members, at, stop, sums, gram, base)
                at = stop
                for k in range(len(target)):
                    target[k] += visible[k]


@njit(cache=True, nogil=True, parallel=True)
def count_block_pairs(
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.integer],
) -> None:
    """Add all pairs of different experts to the packed ``gram`` of dimension ``dim``.

    Column blocks are taken in pairs, one long and one short, to balance threads.
    """
    blocks = (offsets[-1] + WIDTH - 1) // WIDTH
    for index in prange((blocks + 1) // 2):
        block = np.int64(index)
        _count_block(block * WIDTH, columns, offsets, order, starts, dim, gram)
        mirror = blocks - 1 - block
        if mirror != block:
            _count_block(mirror * WIDTH, columns, offsets, order, starts, dim, gram)


@njit(cache=True, nogil=True, parallel=True)
def count_single_pairs(
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.integer],
) -> None:
    """The same sums as `count_block_pairs`, one increment a pair: for wide experts.

    Consecutive increments go to different experts, so none waits for the store
    before it.
    """
    experts, samples = columns.shape
    by_sample = columns.T.copy()
    for index in prange((experts + 1) // 2):
        for side in range(2):
            expert = np.int64(index) if side == 0 else experts - 1 - np.int64(index)
            if side == 1 and expert == np.int64(index):
                continue
            for column in range(offsets[expert], offsets[expert + 1]):
                row = gram[start(column, dim) :]
                for at in range(starts[column], _end(starts, offsets, expert, column, samples)):
                    others = by_sample[order[expert, at]]
                    for other in range(expert + 1, experts):
                        row[others[other]] += 1


@njit(cache=True, nogil=True, parallel=True)
def count_diagonal(columns: NDArray[np.int32], dim: int, gram: NDArray[np.integer]) -> None:
    """Add how often each code occurs to the diagonal of the packed ``gram``."""
    experts, samples = columns.shape
    for index in prange(experts):
        expert = np.int64(index)
        for sample in range(samples):
            column = np.int64(columns[expert, sample])
            gram[start(column, dim) + column] += 1


@njit(cache=True, nogil=True, parallel=True)
def count_labels(
    columns: NDArray[np.int32], labels: NDArray[np.int64], cross: NDArray[np.int64]
) -> None:
    """Add how often each code occurs with each label to ``cross``, (codes, classes)."""
    experts, samples = columns.shape
    for index in prange(experts):
        expert = np.int64(index)
        for sample in range(samples):
            cross[columns[expert, sample], labels[sample]] += 1


@njit(cache=True, nogil=True, parallel=True)
def count_mixed(
    offsets: NDArray[np.int64],
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    dense: NDArray[np.int16],
    dim: int,
    gram: NDArray[np.int64],
) -> None:
    """Add the code x dense block: row (a, v) gets the dense rows of its samples.

    At most 65,536 samples per call, so that sums of int16 fit the int32 accumulator.
    """
    experts, samples = order.shape
    width = dense.shape[1]
    for index in prange(experts):
        expert = np.int64(index)
        sums = np.empty(width, np.int32)
        for column in range(offsets[expert], offsets[expert + 1]):
            sums[:] = 0
            for at in range(starts[column], _end(starts, offsets, expert, column, samples)):
                row = dense[order[expert, at]]
                for k in range(width):
                    sums[k] += row[k]
            target = gram[start(column, dim) + offsets[experts] :]
            for k in range(width):
                target[k] += sums[k]


@njit(cache=True, nogil=True, parallel=True)
def sum_by_class(
    dense: NDArray[np.int16],
    order: NDArray[np.int64],
    ends: NDArray[np.int64],
    cross: NDArray[np.int64],
) -> None:
    """``cross[:, c] +=`` the sum of the rows ``order[ends[c - 1] : ends[c]]`` of ``dense``."""
    dim, width = dense.shape[1], 512
    for index in prange((dim + width - 1) // width):
        left = np.int64(index) * width
        right = min(dim, left + width)
        sums = np.empty(right - left, np.int64)
        at = 0
        for label in range(len(ends)):
            if at == ends[label]:
                continue
            sums[:] = 0
            while at < ends[label]:
                row = dense[order[at], left:right]
                for k in range(len(row)):
                    sums[k] += row[k]
                at += 1
            for k in range(len(sums)):
                cross[left + k, label] += sums[k]
