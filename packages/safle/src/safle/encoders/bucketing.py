"""Bucketing: one feature value -> L digits in {0..k-1}. The first step of an embedding.

The *level* of a value is the number of its feature's thresholds below it. A digit is
the level itself (`Integer`), "is the level l?" (`OneHot`) or "is the level above l?"
(`BinaryOverlap`, a thermometer: nearby values share most bits).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from safle.encoders.features import as_integer
from safle.errors import SettingsError

MAX_BUCKETS = 65_536
LEVEL, EQUALS, EXCEEDS = 0, 1, 2
"""What a digit is of its feature's level; the kernel knows them by these numbers."""


@dataclass(frozen=True)
class Bucketing(ABC):
    """A strategy with B_n = ``buckets`` buckets."""

    buckets: int
    name: ClassVar[str]
    rule: ClassVar[int]
    least: ClassVar[int] = 2
    """Fewest buckets that still tell two values apart."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "buckets", as_integer("buckets", self.buckets))
        if not self.least <= self.buckets <= MAX_BUCKETS:
            raise SettingsError(
                f"{self.name} bucketing got {self.buckets} buckets; "
                f"expected {self.least}..{MAX_BUCKETS}"
            )

    @property
    @abstractmethod
    def functions(self) -> int:
        """L, the digits a feature gives."""

    @property
    @abstractmethod
    def radix(self) -> int:
        """k, the values a digit takes."""

    @property
    def threshold_count(self) -> int:
        return self.buckets - 1


class Integer(Bucketing):
    """The bin number: L = 1, k = B_n.

    >>> Integer(8).functions, Integer(8).radix
    (1, 8)
    """

    name = "integer"
    rule = LEVEL
    functions = 1

    @property
    def radix(self) -> int:
        return self.buckets


class OneHot(Bucketing):
    """One bit per bin, "is the value in it?": L = B_n, k = 2.

    >>> OneHot(8).functions, OneHot(8).radix
    (8, 2)
    """

    name = "one-hot"
    rule = EQUALS
    radix = 2

    @property
    def functions(self) -> int:
        return self.buckets


class BinaryOverlap(Bucketing):
    """A thermometer, "is the value above t_l?": L = B_n, k = 2.

    >>> BinaryOverlap(8).functions, BinaryOverlap(8).threshold_count
    (8, 8)
    """

    name = "binary-overlap"
    rule = EXCEEDS
    radix = 2
    least = 1

    @property
    def functions(self) -> int:
        return self.buckets

    @property
    def threshold_count(self) -> int:
        return self.buckets


STRATEGIES: dict[str, type[Bucketing]] = {
    strategy.name: strategy for strategy in (Integer, OneHot, BinaryOverlap)
}


def make_bucketing(name: str, buckets: int) -> Bucketing:
    """Bucketing by its name: integer, one-hot or binary-overlap."""
    if name not in STRATEGIES:
        raise SettingsError(f"unknown bucketing {name!r}; expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name](buckets)
