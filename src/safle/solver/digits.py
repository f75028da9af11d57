"""Weights digit by digit: float factorisation, exact integer residuals.

To solve ``A w = M`` with ``A = C + ridge S^2`` in integers, approximate solutions y of
the current residual are rounded to integers d and taken off exactly:

    d = round(2^b inverse(A) R),   X <- 2^b X + d,   R <- 2^b R - A d.

Every R is an exact integer, so the factorisation's rounding only costs steps, never
accuracy, and the result does not depend on the precision, the library or the number of
threads that factored: X 2^-T is the true solution to some 60 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.errors import SolveError
from safle.statistics import Statistics
from safle.statistics.kernels import triangle

DIGIT_BITS = 20
LEAST_DIGIT_BITS = 4
RESULT_BITS = 60
RIDGE_BITS = 20
"""The ridge is rounded to at most this many significant bits, so that ``A`` is exact too."""
LEAST_RIDGE_BITS = 6
MOST_STEPS = 200

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """The strength ``numerator / 2**shift``, close to what was asked for."""

    numerator: int
    shift: int

    @property
    def value(self) -> float:
        return self.numerator / 2.0**self.shift

    @staticmethod
    def near(value: float, most_shift: int = 1 << 10) -> Ridge:
        """``value`` rounded to `RIDGE_BITS` significant bits, or to ``2**-most_shift``."""
        shift = min(max(0, RIDGE_BITS - int(np.frexp(value)[1])), most_shift)
        numerator = int(np.rint(value * 2.0**shift))
        if numerator < 1 << LEAST_RIDGE_BITS and numerator != value * 2.0**shift:
            raise SolveError(
                f"ridge {value} is too small beside counts of this size to be exact; use at "
                f"least {2.0 ** (LEAST_RIDGE_BITS - shift):g}, or 0 for least squares"
            )
        return Ridge(numerator, shift)


@dataclass(frozen=True)
class ExactSolution:
    """Real weights, (dim, class_count), and how exactly they solve the system."""

    weights: Matrix
    residual: float
    steps: int


class System:
    """``A = C + ridge diag(unit^2)``, times a power of two that makes it integer.

    Products are taken modulo 2^64. A residual after rounding to digits is at most
    ``|A|`` times their error, which is kept below 2^62: so it is exact.

    Parameters
    ----------
    unit : int64, (dim,), code units per real unit of each column; powers of two
    """

    def __init__(self, statistics: Statistics, ridge: float, unit: NDArray[np.int64]) -> None:
        self.statistics, self.unit = statistics, unit
        norm = _largest_row_sum(statistics).bit_length()
        # Every penalty is a multiple of the smallest squared unit: so much finer may the
        # ridge be than the residuals.
        spare = 2 * (int(unit.min()).bit_length() - 1)
        self.ridge = Ridge.near(ridge, 61 - LEAST_DIGIT_BITS - norm + spare)
        self.shift = max(0, self.ridge.shift - spare)
        penalty = self.ridge.numerator * unit.astype(object) ** 2
        self._penalty = penalty * 2**self.shift // 2**self.ridge.shift
        largest = max(norm + self.shift, int(max(self._penalty)).bit_length()) + 1
        self.digit_bits = min(DIGIT_BITS, 62 - largest)
        if self.digit_bits < LEAST_DIGIT_BITS:
            raise SolveError(
                f"ridge {ridge} and counts of {norm} bits are too large for exact residuals"
            )

    def times(self, digits: NDArray[np.int64]) -> NDArray[np.int64]:
        """``2^shift A digits``."""
        narrow = digits.astype(np.int32)
        gram = triangle.multiply(self.statistics.gram, self.statistics.dim, narrow)
        penalty = (self._penalty % 2**64).astype(np.uint64).view(np.int64)
        return (gram << self.shift) + penalty[:, None] * digits


def _largest_row_sum(statistics: Statistics) -> int:
    """The largest sum of absolute entries in a row of the gram."""
    layout, seen = statistics.layout, len(statistics.codes)
    codes = statistics.diagonal[:seen] * layout.experts
    if not layout.dense_dim:
        return int(codes.max(initial=0))
    # By Cauchy-Schwarz an entry is at most the root of the product of its squares.
    roots = np.sqrt(statistics.diagonal.astype(np.float64))
    dense = roots[seen:].max() * roots.sum()
    mixed = roots[:seen].max(initial=0.0) * roots[seen:].sum()
    return int(max(dense, float(codes.max(initial=0)) + mixed)) + 1


def solve_exactly(system: System, approximate: Callable[[Matrix], Matrix]) -> ExactSolution:
    """Solve ``A w = M`` for the real weights ``unit * w``.

    Parameters
    ----------
    approximate : inverse of A, roughly; (dim, width) -> (dim, width)
    """
    residual = system.statistics.cross << system.shift
    solution = np.zeros_like(residual)
    scale, last = 0, np.inf
    for step in range(MOST_STEPS):
        correction = approximate(np.ldexp(residual.astype(np.float64), -system.shift))
        largest = float(np.abs(correction).max(initial=0.0))
        if not largest < max(last / 4, 2.0):
            raise SolveError("the factorisation is too inaccurate to be refined")
        if largest < 1 and (_bits(solution) >= RESULT_BITS or not residual.any()):
            return _finish(system, solution, scale, residual, step)
        shift = _shift(largest, system.digit_bits, solution)
        digits = np.rint(np.ldexp(correction, shift)).astype(np.int64)
        solution = (solution << shift) + digits
        residual = (residual << shift) - system.times(digits)
        scale, last = scale + shift, float(np.abs(digits).max())
    raise SolveError(f"no convergence within {MOST_STEPS} refinement steps")


def _bits(solution: NDArray[np.int64]) -> int:
    return int(np.abs(solution).max(initial=0)).bit_length()


def _shift(largest: float, digit_bits: int, solution: NDArray[np.int64]) -> int:
    """How far to move the point: a full digit, but no further than int64 allows."""
    room = RESULT_BITS - _bits(solution) if solution.any() else 1 << 10
    return max(0, min(digit_bits - int(np.frexp(largest)[1]), room))


def _finish(
    system: System,
    solution: NDArray[np.int64],
    scale: int,
    residual: NDArray[np.int64],
    steps: int,
) -> ExactSolution:
    weights = np.ldexp(solution.astype(np.float64), -scale) * system.unit[:, None].astype(
        np.float64
    )
    left = np.ldexp(residual.astype(np.float64), -scale - system.shift)
    whole = np.linalg.norm(system.statistics.cross.astype(np.float64))
    return ExactSolution(weights, float(np.linalg.norm(left) / whole), steps)
