"""Weights digit by digit: float factorisation, exact integer residuals.

To solve ``A w = M`` with ``A = C + ridge S^2`` in integers, each step solves for the current
residual R approximately, rounds the result to integers d and subtracts ``A d`` exactly:

    d = round(2^b inverse(A) R),   X <- 2^b X + d,   R <- 2^b R - A d.

Every R is an exact integer, so the factorisation's rounding only costs steps, never
accuracy: X over its power of two is the true solution to some 90 bits. It is rounded once,
to a grid of `GRID_BITS` below the largest weight, so that the result does not depend on the
precision, the library or the number of threads of the factorisation.

No integer wraps unnoticed. Products with the gram stay below 2^63, because its largest row
sum is known. Other terms of a small residual may pass 2^63, so the residual is computed in
float64 too, with a bounded error: if it is small there, the integers modulo 2^64 are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.errors import SolveError
from safle.statistics import triangle
from safle.statistics.statistics import Sums

DIGIT_BITS = 20
MIN_DIGIT_BITS = 4
WHOLE_BITS = 61
"""Bits of the solution."""
MORE_BITS = 32
"""Bits beyond them, for rounding."""
GRID_BITS = 46
"""Bits that are kept."""
RIDGE_BITS = 20
"""The ridge is rounded to at most this many significant bits, so that ``A`` is exact too."""
MIN_RIDGE_BITS = 6
MAX_STEPS = 200

Matrix = NDArray[np.float64]
Integers = NDArray[np.int64]
Approximate = Callable[[Matrix], Matrix]
_absolute_row_sums = Kernel("absolute_row_sums", "gram i4|i8[packed(dim)]", "dim", "sums f8[dim]!")


def round_ridge(value: float, max_shift: int = 1 << 10) -> tuple[int, int]:
    """``numerator, shift`` of ``value``, rounded to `RIDGE_BITS` bits, or to ``2**-max_shift``.

    >>> round_ridge(0.75)
    (786432, 20)
    """
    shift = min(max(0, RIDGE_BITS - int(np.frexp(value)[1])), max_shift)
    numerator = int(np.rint(np.ldexp(value, shift)))
    if numerator < 1 << MIN_RIDGE_BITS and numerator != np.ldexp(value, shift):
        raise SolveError(
            f"ridge {value} is too small beside counts of this size to be exact; use at "
            f"least {2.0 ** (MIN_RIDGE_BITS - shift):g}, or 0 for least squares"
        )
    return numerator, shift


class System:
    """``A = C + ridge diag(scales^2)``, times a power of two that makes it integer.

    ``scales``, (dim,), are integers per real unit of each column: powers of two.
    """

    def __init__(self, sums: Sums, ridge: float, scales: Integers) -> None:
        self.sums = sums
        self.scales = scales
        row_sums = np.empty(sums.dim)
        _absolute_row_sums(sums.gram.packed, row_sums)
        # The float sums err by far less than the millionth that is added.
        self._row_sum = int(float(row_sums.max()) * (1 + 1e-6)) + 1
        bits = max(self._row_sum, _largest(sums.cross)).bit_length()
        # Every penalty is a multiple of the smallest squared scale, so the ridge may have
        # that many more binary places than the residuals.
        spare = 2 * (int(scales.min()).bit_length() - 1)
        numerator, ridge_shift = round_ridge(ridge, 61 - MIN_DIGIT_BITS - bits + spare)
        self.ridge = numerator / 2.0**ridge_shift
        """The strength that is solved with."""
        self.shift = max(0, ridge_shift - spare)
        penalty = numerator * scales.astype(object) ** 2
        penalty = penalty * 2**self.shift // 2**ridge_shift
        self._largest_penalty = int(penalty.max())
        self._penalty = (penalty % 2**64).astype(np.uint64).view(np.int64)[:, None]
        self._float_penalty = penalty.astype(np.float64)[:, None]
        largest = max(bits + self.shift, self._largest_penalty.bit_length()) + 1
        self.digit_bits = min(DIGIT_BITS, 62 - largest)
        if self.digit_bits < MIN_DIGIT_BITS:
            raise SolveError(
                f"ridge {ridge} and counts of {bits} bits are too large for exact residuals; "
                "use a smaller ridge, or fewer samples"
            )

    @property
    def target(self) -> Integers:
        """``2^shift M``: below 2^62, since ``shift`` leaves room for the largest entry."""
        return self.sums.cross << self.shift

    def subtract(self, residual: Integers, move: int, digits: Integers) -> Integers:
        """``2^move residual - 2^shift A digits``, exact; `SolveError` if int64 cannot hold it."""
        largest_digit = _largest(digits)
        if self._row_sum * largest_digit >= 1 << 63:
            raise SolveError("the weights are too large for exact residuals; use a larger ridge")
        product = triangle.multiply(self.sums.gram.packed, self.sums.dim, digits.astype(np.int32))
        terms = (
            (_largest(residual) << move)
            + (_largest(product) << self.shift)
            + self._largest_penalty * largest_digit
        )
        estimate = np.ldexp(residual.astype(np.float64), move)
        estimate -= np.ldexp(product.astype(np.float64), self.shift)
        estimate -= self._float_penalty * digits
        # Six roundings of at most 2^-53 of the terms each are less than 2^-50 of them.
        if terms >> 50 >= 1 << 61 or not np.abs(estimate).max(initial=0.0) < 2.0**61:
            raise SolveError("the factorisation is too inaccurate to be refined")
        return (residual << move) - (product << self.shift) - self._penalty * digits


def refine(system: System, approximate: Approximate) -> tuple[Matrix, float]:
    """``A w = M``: real weights ``scales * w``, (dim, class_count), and their relative residual.

    ``approximate`` multiplies by the inverse of A, roughly.
    """
    first = _Digits(np.zeros_like(system.target), 0, system.target)
    whole = _refine(system, approximate, first, bits=WHOLE_BITS, max_places=1 << 10)
    second = _Digits(np.zeros_like(whole.solution), 0, whole.residual)
    more = _refine(system, approximate, second, bits=WHOLE_BITS, max_places=MORE_BITS)
    beyond = np.ldexp(more.solution.astype(np.float64), -more.places)
    weights = _round(whole.solution, whole.places, beyond, system.scales)
    residual = np.ldexp(whole.residual.astype(np.float64), -whole.places - system.shift)
    norm = float(np.linalg.norm(system.sums.cross.astype(np.float64)))
    return weights, float(np.linalg.norm(residual)) / norm if norm else 0.0


@dataclass(frozen=True)
class _Digits:
    """``solution / 2**places``, and the residual (times ``2**places``) that it leaves."""

    solution: Integers
    places: int
    """How many binary places the solution has."""
    residual: Integers


def _refine(
    system: System, approximate: Approximate, current: _Digits, *, bits: int, max_places: int
) -> _Digits:
    """Add digits until the largest entry has ``bits`` bits, or there are ``max_places`` places."""
    previous = np.inf
    for _ in range(MAX_STEPS):
        if current.places >= max_places or not current.residual.any():
            return current
        correction = approximate(np.ldexp(current.residual.astype(np.float64), -system.shift))
        largest = float(np.abs(correction).max(initial=0.0))
        if not largest < max(previous / 4, 2.0):
            raise SolveError("the factorisation is too inaccurate to be refined")
        known = _largest(current.solution).bit_length()
        if largest < 1 and known >= bits:
            return current
        # Take a full digit, unless int64 has room for less.
        room = min(bits - known if known else 1 << 10, max_places - current.places)
        move = max(0, min(system.digit_bits - int(np.frexp(largest)[1]), room))
        if not np.ldexp(largest, move) < 1 << 31:
            raise SolveError("the weights are too large for exact residuals; use a larger ridge")
        digits = np.rint(np.ldexp(correction, move)).astype(np.int64)
        residual = system.subtract(current.residual, move, digits)
        current = _Digits((current.solution << move) + digits, current.places + move, residual)
        previous = float(np.abs(digits).max())
    raise SolveError(f"no convergence within {MAX_STEPS} refinement steps")


def _largest(values: Integers) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _round(whole: Integers, places: int, more: Matrix, scales: Integers) -> Matrix:
    """``(whole + more) scales 2^-places``, to `GRID_BITS` below the largest."""
    bits = np.frexp(scales.astype(np.float64))[1].astype(np.int64) - 1
    largest = np.abs(np.ldexp(whole.astype(np.float64), bits[:, None])).max(initial=0.0)
    # In float32, the last bits of a value near a power of two do not move the grid.
    top = int(np.frexp(np.float32(largest))[1])
    drop = np.maximum(top - GRID_BITS - bits, 0)[:, None]
    kept = whole >> drop
    rest = (whole - (kept << drop)).astype(np.float64) + more
    steps = kept.astype(np.float64) + np.rint(np.ldexp(rest, -drop))
    return np.ldexp(steps, drop + bits[:, None] - places)
