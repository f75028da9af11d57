"""Scores of dense columns: integers times weights on a grid, summed as integers.

A weight of `MOST_BITS` bits is two int16, ``high * 2^PART_BITS + low``: ``pmaddwd`` then has
16 products per instruction, against 4 of a float64 multiply-add, and the sums are exact.
A step multiplies 16 columns of two samples by two classes' halves of weights.

Limit: two multiplications and two additions per cycle, if the codes are still in L2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from safle.basics.compiling import array_pointers, run_kernel

LANES = 16
"""Columns in a vector."""
PART_BITS = 12
ROWS, SAMPLES = 4, 2
"""Halves of weights by samples that are multiplied in one pass over the columns."""
MOST_DEPTH = 128
"""Vectors of a pass: the weights stay in L1 for all samples of a chunk."""
CHUNK = 32
"""Samples a thread takes at a time."""
INT32_MOST = (1 << 31) - 1

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_HALVES = ir.VectorType(ir.IntType(16), LANES)
_WORDS = ir.VectorType(_I32, LANES // 2)
_PLACES = [(row, sample) for row in range(ROWS) for sample in range(SAMPLES)]


def _emit_lane_sum(builder: Any, vector: Any) -> Any:
    """The sum over the lanes, int64."""
    vector = builder.sext(vector, ir.VectorType(_I64, _WORDS.count))
    size = _WORDS.count
    while size > 1:
        size //= 2
        kind = ir.VectorType(_I32, size)
        lower, upper = (
            builder.shuffle_vector(vector, vector, ir.Constant(kind, [*range(at, at + size)]))
            for at in (0, size)
        )
        vector = builder.add(lower, upper)
    return builder.extract_element(vector, _I32(0))


@intrinsic
def _multiply(
    typing_context: Any,
    dense: Any,
    first: Any,
    second: Any,
    weights: Any,
    row: Any,
    stride: Any,
    depth: Any,
    sums: Any,
    first_sum: Any,
    second_sum: Any,
) -> Any:
    """Add products of two samples' codes and `ROWS` rows of weights to ``sums``.

    Parameters
    ----------
    dense : int16, flat; first, second : where the two samples' codes begin in it
    weights : int16, flat; row, stride : where the first row begins, and from one to the next
    depth : vectors of columns, so few that no sum of 32 bits overflows
    sums : int64, flat; first_sum, second_sum : where the sums of the two samples begin
    """
    i64 = types.int64
    signature = types.void(dense, i64, i64, weights, i64, i64, i64, sums, i64, i64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = array_pointers(context, builder, sig, args)

        def load(pointer: Any, *offsets: Any) -> Any:
            for offset in offsets:
                pointer = builder.gep(pointer, [offset])
            return builder.load(builder.bitcast(pointer, _HALVES.as_pointer()), align=2)

        kind = ir.FunctionType(_WORDS, [_HALVES, _HALVES])
        madd = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.wd")
        totals = [cgutils.alloca_once_value(builder, ir.Constant(_WORDS, None)) for _ in _PLACES]
        with cgutils.for_range(builder, args[6], intp=_I64) as loop:
            at = builder.mul(loop.index, _I64(LANES))
            codes = [load(data(0), start, at) for start in args[1:3]]
            for (index, sample), total in zip(_PLACES, totals, strict=True):
                if sample == 0:
                    offset = builder.mul(args[5], _I64(index))
                    factors = load(data(3), args[4], offset, at)
                products = builder.call(madd, [codes[sample], factors])
                builder.store(builder.add(builder.load(total), products), total)
        for (index, sample), total in zip(_PLACES, totals, strict=True):
            place = builder.gep(data(7), [builder.add(args[8 + sample], _I64(index))])
            found = _emit_lane_sum(builder, builder.load(total))
            builder.store(builder.add(builder.load(place), found), place)
        return context.get_dummy_value()

    return signature, codegen


@njit(cache=True, nogil=True)
def _sum_samples(dense, first, last, left, weights, depth, sums):  # type: ignore[no-untyped-def]
    """``sums[s, r] = sum_k dense[first + s, left + k] * weights[r, k]``."""
    flat, width = dense.reshape(-1), dense.shape[1]
    rows, columns = weights.shape
    halves, totals = weights.reshape(-1), sums.reshape(-1)
    # The row after the last sample's is for its double, where there is an odd one out.
    sums[: last - first + 1] = 0
    vectors = columns // LANES
    for vector in range(0, vectors, depth):
        size, at = min(depth, vectors - vector), vector * LANES
        for row in range(0, rows, ROWS):
            for sample in range(first, last, SAMPLES):
                one, other = (
                    sample * width + left + at,
                    min(sample + 1, last - 1) * width + left + at,
                )
                place = (sample - first) * rows + row
                _multiply(
                    flat, one, other, halves, row * columns + at, columns, size,
                    totals, place, place + rows,
                )  # fmt: skip
    for sample in range(first, last):
        for column in range(vectors * LANES, columns):
            code = np.int64(dense[sample, left + column])
            for row in range(rows):
                sums[sample - first, row] += code * weights[row, column]


@njit(cache=True, nogil=True)
def _score_samples(dense, first, last, left, weights, depth, step, scores):  # type: ignore[no-untyped-def]
    sums = np.empty((CHUNK + 1, len(weights)), np.int64)
    _sum_samples(dense, first, last, left, weights, depth, sums)
    for sample in range(first, last):
        for label in range(scores.shape[1]):
            low, high = sums[sample - first, 2 * label], sums[sample - first, 2 * label + 1]
            scores[sample, label] += np.float64((high << PART_BITS) + low) * step


@njit(cache=True, nogil=True, parallel=True)
def _score_chunks(dense, left, weights, depth, step, scores):  # type: ignore[no-untyped-def]
    for chunk in prange((len(dense) + CHUNK - 1) // CHUNK):
        first = np.int64(chunk) * CHUNK
        last = min(len(dense), first + CHUNK)
        _score_samples(dense, first, last, left, weights, depth, step, scores)


def split(steps: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights as halves, int16, (2 * classes, rounded up, columns): low, high, low, ...

    Parameters
    ----------
    steps : int64, (columns, classes), below ``2**(15 + PART_BITS)`` in magnitude
    """
    columns, classes = steps.shape
    rows = 2 * classes
    halves = np.zeros((rows + -rows % ROWS, columns), np.int16)
    halves[0:rows:2] = (steps & ((1 << PART_BITS) - 1)).T
    halves[1:rows:2] = (steps >> PART_BITS).T
    return halves


def add_scores(
    scores: NDArray[np.float64],
    dense: NDArray[np.int16],
    left: int,
    weights: NDArray[np.int16],
    *,
    most: int,
    step: float,
) -> None:
    """``scores += step * dense[:, left : left + columns] @ weights``, exactly.

    Parameters
    ----------
    scores : float64, (samples, classes), changed in place
    dense : int16, (samples, dense_dim), C-contiguous
    weights : from `split`, of the columns from ``left`` on
    most : largest magnitude of these columns; step : what weights count, a power of two
    """
    depth = min(MOST_DEPTH, INT32_MOST // (2 * most << PART_BITS))
    numbers = left, weights, depth, step, scores
    # About a third of a nanosecond for each multiplication of sixteen columns.
    work = len(dense) * weights.size / LANES / 3
    if len(dense) <= CHUNK:
        _score_samples(dense, 0, len(dense), *numbers)
    else:
        run_kernel(_score_chunks, dense, *numbers, nanoseconds=work)
