"""Remainders: what dense columns reveal of few samples because their sums are whole numbers.

If all codes of a column are multiples of 200, except those of few samples, then the column's
products with another one, divided by 200, leave a remainder that comes from these samples alone.
And for a column v with three codes, the sums of 1, v and ``v^2`` say how many samples have each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import DENSE_LIMIT

CODES_THAT_FOLLOW = 3
"""How many codes of a column have counts that follow from its sum and its squares."""
ROWS_AT_ONCE = 256
"""Most columns are settled by this many rows."""
Blocks = Callable[[], Iterable[NDArray[np.integer[Any]]]]


class _Divisor(NamedTuple):
    """Most codes of a column, less ``rest``, may be multiples of ``divisor``."""

    column: int
    divisor: int
    rest: int


def find_fewest_apart(blocks: Blocks, few: int) -> int:
    """Fewest samples that a column's remainders, or its three codes, set apart; 0 if none.

    Of remainders, only sets of at most ``few`` samples are found. Blocks of codes, (rows, columns),
    are read twice.

    >>> find_fewest_apart(lambda: [np.array([[0], [20], [40], [7], [60], [80], [20]])], few=2)
    1
    """
    counts: dict[int, Counter[int]] | None = None
    groups: _Groups | None = None
    for block in blocks():
        codes = block.astype(np.int64)
        if counts is None or groups is None:
            counts = {column: Counter() for column in range(codes.shape[1])}
            groups = _Groups(codes, few)
        _count_codes(codes, counts)
        groups.add(codes)
    if counts is None or groups is None:
        return 0
    fewest = [min(found.values()) for found in counts.values() if len(found) == CODES_THAT_FOLLOW]
    divisors = list(groups.find_divisors())
    if divisors:
        column, divisor, rest = np.array(divisors).T
        apart = np.zeros(len(divisors), np.int64)
        for block in blocks():
            apart += ((block[:, column] - rest) % divisor != 0).sum(axis=0)
        fewest += apart[(apart > 0) & (apart <= few)].tolist()
    return min(fewest, default=0)


def _count_codes(codes: NDArray[np.int64], counts: dict[int, Counter[int]]) -> None:
    """Count codes by column, and leave out columns with more of them than follow from sums."""
    for column in list(counts):
        found, times = np.unique(codes[:, column], return_counts=True)
        counts[column].update(dict(zip(found.tolist(), times.tolist(), strict=True)))
        if len(counts[column]) > CODES_THAT_FOLLOW:
            del counts[column]


class _Groups:
    """Samples dealt out to groups: most groups have none of the few samples that are set apart.

    In such a group the divisor divides all differences of codes: it divides their greatest common
    divisor.
    """

    def __init__(self, codes: NDArray[np.int64], few: int) -> None:
        self.firsts = codes[: 2 * few + 1]
        self.least = len(self.firsts) - few
        self.steps = np.zeros_like(self.firsts)
        self.columns = np.arange(codes.shape[1])
        self.done = 0

    def add(self, codes: NDArray[np.int64]) -> None:
        """Add samples to the groups, and leave out columns without a divisor in most groups."""
        for first in range(0, len(codes), ROWS_AT_ONCE):
            rows = codes[first : first + ROWS_AT_ONCE, self.columns]
            for group in range(len(self.firsts)):
                mine = rows[(group - self.done) % len(self.firsts) :: len(self.firsts)]
                apart = np.gcd.reduce(mine - self.firsts[group, self.columns], axis=0)
                self.steps[group, self.columns] = np.gcd(self.steps[group, self.columns], apart)
            self.done += len(rows)
            are_divided = (self.steps[:, self.columns] != 1).sum(axis=0) >= self.least
            self.columns = self.columns[are_divided]

    def find_divisors(self) -> Iterator[_Divisor]:
        """Powers of primes that divide the steps of enough groups."""
        for column in self.columns.tolist():
            steps = self.steps[:, column]
            powers = {power for step in np.unique(steps).tolist() for power in _prime_powers(step)}
            for power in sorted(powers):
                divided = steps % power == 0
                if divided.sum() >= self.least:
                    rests = Counter((self.firsts[divided, column] % power).tolist())
                    yield _Divisor(column, power, rests.most_common(1)[0][0])


def _prime_powers(number: int) -> Iterator[int]:
    """The powers of primes that divide a difference of two codes.

    >>> list(_prime_powers(200))
    [2, 4, 8, 5, 25]
    """
    left = number
    for prime in range(2, 2 * DENSE_LIMIT + 1):
        if left < 2:
            return
        power = prime
        while left % prime == 0:
            yield power
            left //= prime
            power *= prime
