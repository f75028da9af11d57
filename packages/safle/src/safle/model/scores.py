"""Scores and probabilities: ``sum_j W_j[idx_j] + dense W``, the quadratic head's squares, softmax.

Weights are multiples of one power of two, `MAX_BITS` bits at most: sums of them are exact in any
order, by any library, on any machine. Symbols look up a row of a table for each expert, and 64 rows
add up in 32 bits before the sum is widened. A weight of a dense column is two int16, ``high *
2^PART_BITS + low``; columns of one scale and one range are neighbours, and each such run is
multiplied by a power of two once (``_native/predict.c``).

The quadratic head adds ``-|V' x - t|^2 / 2`` or ``|G' x - t|^2 / 2``. Codes and factors are
integers of 16 bits, so their products add up exactly in float64. They are rounded to `OFFSET_BITS`
behind the point and clipped, so squares add up exactly as well.

The discriminant, averaged and quadratic heads' scores, divided by the model's temperature, are
logarithms of posteriors, up to what all classes share: ``p = softmax(scores / temperature)``.
Least-squares scores estimate the one-hot labels; their probabilities are the nearest point of the
probability simplex. Libraries differ in the last bit of an exponential, which could move an answer
to another bin of an evaluation: here it is a polynomial, with every product and sum in a fixed
order.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle._native.cores import blas_for
from safle.encoders.codes import Layout
from safle.errors import WireError
from safle.solver.heads import HEADS
from safle.solver.heads.quadratic import OFFSET_BITS, Quadratic

Floats = NDArray[np.float64]
LANES = 4
"""Classes in a vector of a table; tables are padded to a multiple."""
MAX_BITS = 24
"""Most bits of a table's entry, without its sign."""
_look_up = Kernel(
    "look_up",
    "symbols u1|u2[samples, experts]; samples; bases i8[experts + 1]; experts",
    "tables i4[bases[-1], width]; width; scores i8[samples, width]!",
    pieces="(samples + 255) // 256",
)
PART_BITS = 12
_HALVES = 4
"""Halves of weights that are multiplied in one pass over the columns."""
_INT32_MAX = (1 << 31) - 1
_add_scores = Kernel(
    "add_scores",
    "dense i2[samples, width]; samples; width; left; weights i2[rows, columns]; rows; columns",
    "depth; step; scores f8[samples, classes]!; classes; sums i8[33 * rows]~",
    pieces="(samples + 31) // 32",
)
SQUARED_ROWS = 512
"""Samples whose products with a block of columns are still in the cache when they are squared."""
SQUARED_COLUMNS = 128
"""Columns that are multiplied at a time, without the zeros below their triangle."""
EXPORTED_COLUMNS = 8_192
"""Columns of one matrix product in an exported graph."""
MAX_EXPONENT = 64
MIN_POWER = -700.0
"""Below this, an exponential is taken as 0."""
_HIGH = 0.693147180369123816490
"""High part of ln 2; its last bits are zeros, so that whole multiples are exact."""
_LOW = 1.90821492927058770002e-10
_TERMS = 14


def pad_tables(tables: NDArray[np.int32]) -> NDArray[np.int32]:
    """``tables`` with zero columns up to a multiple of `LANES`."""
    return np.pad(tables, ((0, 0), (0, -tables.shape[1] % LANES)))


def look_up(
    symbols: NDArray[np.unsignedinteger[Any]], bases: NDArray[np.int64], tables: NDArray[np.int32]
) -> NDArray[np.int64]:
    """``scores[s] = sum_e tables[bases[e] + symbols[s, e]]``, (samples, padded class_count).

    Parameters
    ----------
    symbols : uint8 or uint16, (samples, experts)
    bases : int64, (experts + 1,), first code of each expert and the end
    tables : int32, (code_count, class_count), as `pad_tables` gives them, at most
        ``2**MAX_BITS`` in magnitude
    """
    scores = np.zeros((len(symbols), tables.shape[1]), np.int64)
    sizes = np.diff(bases)
    if symbols.size and (symbols.max(axis=0) >= sizes).any():
        raise IndexError("a symbol is larger than its expert has: codes of another encoder")
    _look_up(symbols, bases, tables, scores)
    return scores


def round_to_grid(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to multiples of a power of two, `MAX_BITS` below the largest value."""
    exponent = grid_exponent(values)
    # Adding zero turns -0.0 into 0.0.
    steps = np.rint(np.ldexp(values, -exponent))
    return np.ldexp(steps, exponent).astype(np.float32) + np.float32(0)


def grid_exponent(values: NDArray[np.floating[Any]]) -> int:
    """The exponent of the power of two that `round_to_grid` rounds ``values`` to multiples of."""
    # As float32, which has as many bits: a largest value that rounds up to the next
    # power of two belongs to that one's grid, so rounded values keep their grid.
    largest = np.float32(np.abs(values).max(initial=0.0))
    return int(np.frexp(largest)[1]) - MAX_BITS


def split_dense(
    layout: Layout, weights: NDArray[np.float32], step: float
) -> list[tuple[int, NDArray[np.int16], int, float]]:
    """Weights of the dense columns as `add_dense` takes them: run by run, without runs of zeros.

    Parameters
    ----------
    weights : float32, (dense_dim, class_count), multiples of ``step``
    step : a power of two, at least ``2**-24`` of the largest weight
    """
    steps = (weights.astype(np.float64) / step).astype(np.int64)
    parts = []
    for block, place in layout.dense_blocks:
        if steps[place].any():
            # This many products add up in 32 bits before the sum is widened.
            depth = _INT32_MAX // (2 * max(-block.low, block.high) << PART_BITS)
            parts.append((place.start, _split(steps[place]), depth, float(step / block.scale)))
    return parts


def add_dense(
    scores: NDArray[np.float64],
    dense: NDArray[np.int16],
    parts: list[tuple[int, NDArray[np.int16], int, float]],
) -> None:
    """Add the part of dense columns, (samples, dense_dim), to scores, in place, exactly."""
    for left, weights, depth, step in parts:
        _add_scores(dense, left, weights, depth, step, scores)


def _split(steps: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights, (columns, classes), as halves, (2 * classes, rounded up, columns): low, high, ..."""
    columns, classes = steps.shape
    rows = 2 * classes
    halves = np.zeros((rows + -rows % _HALVES, columns), np.int16)
    halves[0:rows:2] = (steps & ((1 << PART_BITS) - 1)).T
    halves[1:rows:2] = (steps >> PART_BITS).T
    return halves


def check_squares(layout: Layout, quadratic: Quadratic) -> None:
    """`WireError` if the squares do not belong to ``layout``."""
    classes = len(quadratic.offsets)
    d = len(layout.squared_columns)
    width = _width(layout, quadratic)
    shape = (classes, d, width) if quadratic.by_directions else (classes, d * (d + 1) // 2)
    expected: dict[str, tuple[NDArray[Any], Any, tuple[int, ...]]] = {
        "factors": (quadratic.factors, np.int16, shape),
        "offsets": (quadratic.offsets, np.int32, (classes, width)),
    }
    for name, (array, dtype, wanted) in expected.items():
        if not d * width or array.dtype != dtype or array.shape != wanted:
            raise WireError(f"{name} is {array.dtype} {array.shape}; expected {wanted}")
    if abs(quadratic.exponent) > MAX_EXPONENT or not 0 < quadratic.share <= 1:
        raise WireError(
            f"exponent {quadratic.exponent} and share {quadratic.share}; expected -{MAX_EXPONENT} "
            f"to {MAX_EXPONENT}, and 0 < share <= 1"
        )
    scales = {*layout.scales[layout.squared_columns].tolist()}
    if len(scales) > 1:
        raise WireError(f"columns of scales {sorted(scales)} are squared; expected one scale")


def add_squares(
    scores: NDArray[np.float64],
    codes: NDArray[np.int16],
    layout: Layout,
    quadratic: Quadratic,
) -> None:
    """Add the squares to ``scores``, (samples, class_count), in place.

    Parameters
    ----------
    codes : int16, (samples, d), dense codes of the layout's squared columns
    """
    real = codes.astype(np.float64)
    width = _width(layout, quadratic)
    step = _square_step(layout, quadratic)
    limit = _clip_limit(width)
    operations = real.size * width * scores.shape[1]
    tops = range(0, len(real), SQUARED_ROWS)
    lefts = range(0, width, SQUARED_COLUMNS)
    for place in range(scores.shape[1]):
        factor = _factor(quadratic, place, codes.shape[1])
        sums = np.zeros(len(real))
        for top, left in product(tops, lefts):
            rows = slice(top, top + SQUARED_ROWS)
            part = slice(left, min(left + SQUARED_COLUMNS, width))
            depth = None if quadratic.by_directions else part.stop
            with blas_for(operations):
                values = real[rows, :depth] @ factor[:depth, part]
            np.rint(np.multiply(values, step, out=values), out=values)
            values -= quadratic.offsets[place, part]
            np.clip(values, -limit, limit, out=values)
            sums[rows] += np.einsum("ij,ij->i", values, values)
        scores[:, place] += sums * _square_weight(quadratic)


def express_squares(ops: Any, dense: Any, layout: Layout, quadratic: Quadratic) -> Any:
    """The same as operations of an export, (samples, class_count), to be added last."""
    codes = ops.gather(dense, layout.squared_columns)
    classes, width = quadratic.offsets.shape
    d = len(layout.squared_columns)
    step = _square_step(layout, quadratic)
    limit = _clip_limit(width)
    block = max(1, EXPORTED_COLUMNS // width)
    parts = []
    for first in range(0, classes, block):
        places = range(first, min(first + block, classes))
        factors = np.concatenate([_factor(quadratic, place, d) for place in places], axis=1)
        values = ops.round(ops.multiply(ops.integer_product(codes, factors), step))
        values = ops.subtract(values, quadratic.offsets[first : places.stop].ravel())
        values = ops.clip(values, -limit, limit)
        parts.append(ops.sum_squares(values, len(places), width))
    return ops.multiply(ops.join(parts), _square_weight(quadratic))


def _width(layout: Layout, quadratic: Quadratic) -> int:
    """Squares of a class."""
    if quadratic.by_directions:
        return quadratic.factors.shape[2]
    return len(layout.squared_columns)


def _square_step(layout: Layout, quadratic: Quadratic) -> float:
    """Value of one step of an integer sum, in units of the offsets."""
    scale = int(layout.scales[layout.squared_columns[0]])
    return float(np.ldexp(1 / scale, quadratic.exponent + OFFSET_BITS))


def _clip_limit(width: int) -> int:
    """The largest value whose squares, this many, add up exactly."""
    return math.isqrt((1 << 53) // width)


def _square_weight(quadratic: Quadratic) -> float:
    sign = 1 if quadratic.by_directions else -1
    return sign * quadratic.share / 2 / (1 << 2 * OFFSET_BITS)


def _factor(quadratic: Quadratic, place: int, d: int) -> NDArray[np.float64]:
    """Integers of V or G, (d, width), of a class."""
    if quadratic.by_directions:
        return quadratic.factors[place].astype(np.float64)
    square = np.zeros(d * d)
    square[_upper(d)] = quadratic.factors[place]
    return square.reshape(d, d)


@cache
def _upper(d: int) -> NDArray[np.int64]:
    """Where the entries of a triangle lie in a square, row by row."""
    return np.flatnonzero(np.triu(np.ones((d, d), np.bool_)))


def probabilities(scores: Floats, head: str, temperature: float = 1.0) -> Floats:
    """Class probabilities, (samples, class_count), of a head's scores."""
    if not HEADS[head].takes_priors:
        return _nearest_probabilities(scores)
    exponentials = exponential((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return exponentials / _sum_in_order(exponentials)


def odds(scores: Floats, head: str, temperature: float = 1.0) -> Floats:
    """``p / (1 - p)``, (samples, class_count), accurate where p is close to 1."""
    if not HEADS[head].takes_priors:
        p = _nearest_probabilities(scores)
        with np.errstate(divide="ignore"):
            return p / (1 - p)
    exponentials = exponential((scores - scores.max(axis=1, keepdims=True)) / temperature)
    # The largest is 1: unless it is set aside, the others are lost in rounding.
    rows = np.arange(len(exponentials))
    best = np.argmax(scores, axis=1)
    exponentials[rows, best] = 0.0
    others = _sum_in_order(exponentials)
    result: Floats = exponentials / (1 + others - exponentials)
    with np.errstate(divide="ignore"):
        result[rows, best] = 1 / others[:, 0]
    return result


def exponential(values: Floats) -> Floats:
    """``exp(values)`` of values up to 0, to about the last bit; 0 below `MIN_POWER`.

    >>> exponential(np.array([0.0, -1.0, -1e9])).round(12).tolist()
    [1.0, 0.367879441171, 0.0]
    """
    powers = np.rint(np.maximum(values, MIN_POWER) * (1 / math.log(2)))
    rest = (np.maximum(values, MIN_POWER) - powers * _HIGH) - powers * _LOW
    series = np.ones_like(rest)
    for term in range(_TERMS, 0, -1):
        series *= rest / term
        series += 1.0
    raised: Floats = np.ldexp(series, powers.astype(np.int32))
    return np.where(values < MIN_POWER, 0.0, raised)


def _sum_in_order(values: Floats) -> Floats:
    """Row sums, (rows, 1), column after column."""
    total = np.zeros(len(values))
    for column in values.T:
        total = total + column
    return total[:, None]


def _nearest_probabilities(scores: Floats) -> Floats:
    """Euclidean projection of every row on the probability simplex."""
    ordered = -np.sort(-scores, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
    support = (ordered > excess).sum(axis=1)
    threshold = excess[np.arange(len(scores)), support - 1]
    return np.maximum(scores - threshold[:, None], 0.0)
