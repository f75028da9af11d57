"""Checks of the algebra that counts obey, over a packed gram.

Each returns (row, column) of the first violation it meets, or (-1, -1).
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.statistics.kernels.triangle import start


@njit(cache=True, nogil=True)
def _check_expert(expert, offsets, dim, gram, diagonal):  # type: ignore[no-untyped-def]
    """Rows of one expert: diagonal own block, margins with every later expert."""
    experts = offsets.shape[0] - 1
    first, last = offsets[expert], offsets[expert + 1]
    column_sums = np.zeros(offsets[experts], np.int64)
    for row in range(first, last):
        origin = start(row, dim)
        for column in range(row + 1, last):
            if gram[origin + column] != 0:
                return row, column
        for other in range(expert + 1, experts):
            margin = np.int64(0)
            least = np.int64(0)
            largest = np.int64(0)
            for column in range(offsets[other], offsets[other + 1]):
                entry = np.int64(gram[origin + column])
                least = min(least, entry)
                largest = max(largest, entry)
                margin += entry
                column_sums[column] += entry
            if least < 0 or largest > diagonal[row] or margin != diagonal[row]:
                return row, offsets[other]
    for column in range(last, offsets[experts]):
        if column_sums[column] != diagonal[column]:
            return first, column
    return np.int64(-1), np.int64(-1)


@njit(cache=True, nogil=True, parallel=True)
def find_broken_pair(
    offsets: NDArray[np.int64],
    dim: int,
    gram: NDArray[np.integer],
    diagonal: NDArray[np.int64],
) -> NDArray[np.int64]:
    """First (row, column) where a block of two experts does not add up; int64, (2,).

    Entries lie between 0 and the diagonal, so that no margin can wrap around to it.
    """
    experts = offsets.shape[0] - 1
    found = np.full((experts, 2), -1, np.int64)
    for index in prange((experts + 1) // 2):
        for side in range(2):
            expert = np.int64(index) if side == 0 else experts - 1 - np.int64(index)
            row, column = _check_expert(expert, offsets, dim, gram, diagonal)
            found[expert, 0] = row
            found[expert, 1] = column
    for expert in range(experts):
        if found[expert, 0] >= 0:
            return found[expert]
    return np.full(2, -1, np.int64)


SURE = 2.0**40
"""What is farther from zero than this in float64 has its sign: terms below 2**66 are rounded by
2**13 at most. What is nearer fits 64 bits, in which sums are exact whatever wraps on the way."""
NEAR = 1e-12
"""Products of 126 bits that differ by less, relatively, are compared exactly."""


@njit(cache=True, nogil=True, inline="always")
def _is_negative(product, left, right, total, other_total, samples):  # type: ignore[no-untyped-def]
    """Whether ``sum (x - l)(y - m)`` is below zero, exactly."""
    rough = (
        np.float64(product)
        - np.float64(left) * np.float64(other_total)
        - np.float64(right) * np.float64(total)
        + np.float64(samples) * np.float64(left) * np.float64(right)
    )
    exact = product - left * other_total - right * total + samples * left * right
    return rough < -SURE or (rough <= SURE and exact < 0)


@njit(cache=True, nogil=True)
def _multiply_wide(a, b):  # type: ignore[no-untyped-def]
    """The product of two numbers from 0 below 2**63: its upper and its lower 64 bits."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low = np.uint64(a) >> half, np.uint64(a) & mask
    b_high, b_low = np.uint64(b) >> half, np.uint64(b) & mask
    low, cross = a_low * b_low, a_high * b_low
    middle = (low >> half) + (cross & mask) + a_low * b_high
    high = a_high * b_high + (cross >> half) + (middle >> half)
    return high, (middle << half) | (low & mask)


@njit(cache=True, nogil=True)
def _exceeds_powers(product, power, other_power):  # type: ignore[no-untyped-def]
    """Whether ``(sum x y)^2 > sum x^2 sum y^2``, exactly: no two columns have such products."""
    square = np.float64(product) * np.float64(product)
    allowed = np.float64(power) * np.float64(other_power)
    if abs(square - allowed) > NEAR * allowed:
        return square > allowed
    high, low = _multiply_wide(abs(product), abs(product))
    most_high, most_low = _multiply_wide(power, other_power)
    return high > most_high or (high == most_high and low > most_low)


@njit(cache=True, nogil=True, parallel=True)
def find_impossible(
    packed: NDArray[np.integer],
    first: int,
    dim: int,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    total: NDArray[np.int64],
    power: NDArray[np.int64],
    samples: int,
) -> NDArray[np.int64]:
    """First (row, column) with column >= ``first`` that no samples have, exactly; int64, (2,).

    ``(x - l)(y - m) >= 0`` and its three kin, summed over the samples, and Cauchy's and Schwarz's
    inequality. ``power`` is the diagonal, and not negative.
    """
    found = np.full(dim, -1, np.int64)
    for index in prange(dim):
        i = np.int64(index)
        for j in range(max(i, first), dim):
            product = np.int64(packed[start(i, dim) + j])
            # The least of 64 bits has no absolute value in them.
            bad = product == np.iinfo(np.int64).min
            bad |= _is_negative(product, low[i], low[j], total[i], total[j], samples)
            bad |= _is_negative(product, high[i], high[j], total[i], total[j], samples)
            bad |= _is_negative(-product, low[i], -high[j], total[i], -total[j], samples)
            bad |= _is_negative(-product, -high[i], low[j], -total[i], total[j], samples)
            if bad or _exceeds_powers(product, power[i], power[j]):
                found[i] = j
                break
    for row in range(dim):
        if found[row] >= 0:
            return np.array([row, found[row]])
    return np.full(2, -1, np.int64)
