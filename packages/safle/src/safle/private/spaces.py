"""Statistics as free sums for masks, over the whole layout and all classes of a round.

Which codes and classes occurred must not show. What follows from the rest
(`safle.statistics.free_sums`) is left out, so that it holds by construction in whatever is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from safle.encoders.code_space import CodeSpace
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.errors import CountOverflow, InvariantError
from safle.private.vector import (
    MOST_NARROW,
    Integers,
    Mask,
    check_entries,
    check_samples,
    require_vector,
)
from safle.statistics import Statistics
from safle.statistics.free_sums import FreeSums


@dataclass(frozen=True)
class StatisticsSpace:
    """The free sums of statistics over a whole layout and all classes of a round.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private.vector import pack, unpack
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> sent = count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> space = StatisticsSpace(encoder.space, ("ill", "well"), 1000)
    >>> unpack(space, pack(space, space.entries(sent))) == sent
    True
    """

    space: CodeSpace
    class_names: tuple[ClassName, ...]
    most_total_samples: int

    def __post_init__(self) -> None:
        if not 1 <= self.most_total_samples <= self.layout.most_samples:
            raise CountOverflow(
                f"at most {self.most_total_samples} samples; expected 1 to "
                f"{self.layout.most_samples}"
            )

    @property
    def fingerprint(self) -> str:
        return self.space.fingerprint

    @property
    def layout(self) -> Layout:
        return self.space.layout

    @cached_property
    def free(self) -> FreeSums:
        """The free sums of all codes and classes."""
        return FreeSums(self.layout, len(self.class_names))

    @cached_property
    def wide(self) -> Mask:
        return wide_sums(self.free, MOST_NARROW // self.most_total_samples)

    @property
    def most_sum(self) -> int:
        """The largest magnitude of any class sum."""
        return int(self.free.largest.max(initial=1)) * self.most_total_samples

    @property
    def most_product(self) -> int:
        """The largest magnitude of any product."""
        return int(self.free.largest.max(initial=1)) * self.most_sum

    def entries(self, value: Statistics) -> Integers:
        self.space.require(value.space)
        check_samples(value.sample_count, self.most_total_samples)
        if unknown := sorted({*value.class_names} - {*self.class_names}, key=str):
            raise InvariantError(f"class {unknown[0]!r} is not among those that the round declares")
        return self.free.take(value, self.class_names)

    def value(self, entries: Integers) -> Statistics:
        counts = entries[self.free.counts]
        check_samples(sum(counts.tolist()), self.most_total_samples)
        check_entries(counts, 0, self.most_total_samples)
        check_entries(entries[self.free.cross], -self.most_sum, self.most_sum)
        check_entries(entries[self.free.cross.stop :], -self.most_product, self.most_product)
        statistics = self.free.value(self.fingerprint, self.class_names, entries)
        statistics.verify()
        return statistics


def wide_sums(free: FreeSums, most: int) -> Mask:
    """The class counts, and all sums that one sample may change by more than ``most``.

    Any number of samples fits a count: more than a round allows are noticed, and do not wrap.
    """
    require_vector(10 * free.size)
    largest = np.maximum(free.largest, 1)
    parts = [np.ones(free.class_count, np.bool_), np.repeat(largest > most, free.class_count)]
    limits = most // largest
    parts += [largest[first:] > limits[at] for at, first in enumerate(free.firsts.tolist())]
    if free.by_class:
        own = wide_sums(free.by_class, most)[free.by_class.products]
        parts += [own] * free.class_count
    return np.concatenate(parts)
