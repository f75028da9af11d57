"""Scores of the quadratic head: ``-|V' x - t|^2 / 2`` or ``|G' x - t|^2 / 2``, in integers.

Codes and factors are integers of 16 bits, so their products add up exactly in float64. They
are rounded to `OFFSET_BITS` behind the point and cut off far out, so squares add up exactly
as well: in any order, by any library, on any machine.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Layout
from safle.errors import WireError
from safle.solver.solution import OFFSET_BITS, Quadratic, squared_columns

ROWS = 512
"""Samples whose products with a block of columns are still in the cache when they are squared."""
AT_A_TIME = 128
"""Columns that are multiplied together: what lies below a triangle is left out."""
TOGETHER = 8_192
"""Columns of an exported product."""
MOST_EXPONENT = 64


class Squares:
    """What the quadratic head adds to the scores of samples.

    Parameters
    ----------
    layout : of the encoder
    head : what was solved; `WireError` if it does not belong to ``layout``
    """

    def __init__(self, layout: Layout, head: Quadratic) -> None:
        self.columns, self.head = squared_columns(layout), head
        classes, d = len(head.offsets), len(self.columns)
        self.width = head.factors.shape[2] if head.by_directions else d
        """Squares of a class."""
        shape = (classes, d, self.width) if head.by_directions else (classes, d * (d + 1) // 2)
        shapes = {"factors": shape, "offsets": (classes, self.width)}
        for name, expected in shapes.items():
            array, kind = getattr(head, name), {"factors": np.int16, "offsets": np.int32}[name]
            if not d * self.width or array.dtype != kind or array.shape != expected:
                raise WireError(f"{name} is {array.dtype} {array.shape}; expected {expected}")
        if abs(head.exponent) > MOST_EXPONENT or not 0 < head.worth <= 1:
            raise WireError(f"exponent {head.exponent} and worth {head.worth}; expected 0 < worth")
        scales = {layout.dense_scales[column] for column in self.columns}
        if len(scales) > 1:
            raise WireError(f"columns of scales {sorted(scales)} are squared; expected one scale")
        self.step = float(np.ldexp(1 / scales.pop(), head.exponent + OFFSET_BITS))
        """Value of one step of an integer sum, in units of the offsets."""
        self.most = math.isqrt((1 << 53) // self.width)
        sign = 1 if head.by_directions else -1
        self.worth = sign * head.worth / 2 / (1 << 2 * OFFSET_BITS)

    @cached_property
    def _upper(self) -> NDArray[np.int64]:
        """Where the entries of a triangle lie in a square, row by row."""
        d = len(self.columns)
        return np.flatnonzero(np.triu(np.ones((d, d), np.bool_)))

    def factor(self, place: int) -> NDArray[np.float64]:
        """Integers of V or G, (d, width), of a class."""
        if self.head.by_directions:
            return self.head.factors[place].astype(np.float64)
        d = len(self.columns)
        square = np.zeros(d * d)
        square[self._upper] = self.head.factors[place]
        return square.reshape(d, d)

    def add(self, scores: NDArray[np.float64], codes: NDArray[np.int16]) -> None:
        """Add to ``scores``, (samples, class_count), in place.

        Parameters
        ----------
        codes : int16, (samples, d), dense codes of `columns`
        """
        width, real = self.width, codes.astype(np.float64)
        for place in range(scores.shape[1]):
            factor, sums = self.factor(place), np.zeros(len(real))
            for top, left in product(range(0, len(real), ROWS), range(0, width, AT_A_TIME)):
                rows, some = slice(top, top + ROWS), slice(left, min(left + AT_A_TIME, width))
                deep = None if self.head.by_directions else some.stop
                values = real[rows, :deep] @ factor[:deep, some]
                np.rint(np.multiply(values, self.step, out=values), out=values)
                values -= self.head.offsets[place, some]
                np.clip(values, -self.most, self.most, out=values)
                sums[rows] += np.einsum("ij,ij->i", values, values)
            scores[:, place] += sums * self.worth

    def express(self, ops: Any, dense: Any) -> Any:
        """The same in the words of an export, (samples, class_count), to be added last."""
        codes = ops.gather(dense, self.columns)
        classes, width = self.head.offsets.shape
        some, parts = max(1, TOGETHER // width), []
        for first in range(0, classes, some):
            places = range(first, min(first + some, classes))
            factors = np.concatenate([self.factor(place) for place in places], axis=1)
            values = ops.round(ops.multiply(ops.integer_product(codes, factors), self.step))
            values = ops.subtract(values, self.head.offsets[first : places.stop].ravel())
            values = ops.clip(values, -self.most, self.most)
            parts.append(ops.sum_squares(values, len(places), width))
        return ops.multiply(ops.join(parts), self.worth)
