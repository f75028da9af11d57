"""Statistics that only open with noise: every keyholder takes its own off the sum of its masks.

Each adds the whole noise that the round promises: as long as one of them is honest, nobody has
less of it, the server included. The price is as many times the variance as there are keyholders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from safle.errors import CountOverflow
from safle.private.spaces import StatisticsSpace, wide_sums
from safle.private.vector import (
    MOST_NARROW,
    MOST_WIDE,
    Bytes,
    Integers,
    Mask,
    Sizes,
    check_entries,
    check_samples,
    pack,
)
from safle.publishing.noise import Draw, draw_discrete_gaussian, draw_noise, plan_noise
from safle.statistics import Statistics
from safle.statistics.noisy import NoisyStatistics, Privacy

REACH = 16
"""Scales of the noise that the moduli have room for: beyond them lies less than 1e-50 of it."""


@dataclass(frozen=True)
class NoisySpace:
    """The free sums of statistics, with room for the noise of so many keyholders.

    Attributes
    ----------
    exact : what is added up
    epsilon, delta : that every keyholder's noise promises by itself
    calibration : where the encoder's thresholds came from, "declared" or "public"
    keyholders : how many add noise

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder
    >>> from safle.private import statistics_space
    >>> encoder = LinearEncoder.publishable(DeclaredRange(0, 1, feature_dim=2))
    >>> exact = statistics_space(encoder, ["ill", "well"], most_total_samples=1000)
    >>> NoisySpace(exact, 2.0, 1e-5, "declared", keyholders=2).privacy.promise
    'epsilon 2, delta 1e-05'
    """

    exact: StatisticsSpace
    epsilon: float
    delta: float
    calibration: str
    keyholders: int

    def __post_init__(self) -> None:
        # Refuses a layout without a clip, and promises that cannot be kept.
        if self.exact.most_product + self._most_noise > MOST_WIDE:
            raise CountOverflow(
                f"at most {self.most_total_samples} samples, and their noise, take more than 64 "
                "bits a number: declare fewer samples"
            )

    @property
    def most_total_samples(self) -> int:
        return self.exact.most_total_samples

    @cached_property
    def privacy(self) -> Privacy:
        """What one keyholder's noise promises: worked out here, whatever a round file says."""
        layout = self.exact.layout
        return plan_noise(layout, self.epsilon, self.delta, calibration=self.calibration)

    @cached_property
    def wide(self) -> Mask:
        room = max(0, MOST_NARROW - self._most_noise)
        return wide_sums(self.exact.free, room // self.most_total_samples)

    @property
    def _most_noise(self) -> int:
        """Of any class sum or product."""
        largest = max(self.exact.layout.dense_scales, default=1)
        return self._room(max(self.privacy.cross * largest, self.privacy.gram * largest**2))

    def _room(self, scale: float) -> int:
        # A power of two: it is the same on every machine, whatever the last bits of the scale.
        return 1 << math.ceil(math.log2(REACH * scale * math.sqrt(self.keyholders) + 1))

    def entries(self, value: Statistics) -> Integers:
        return self.exact.entries(value)

    def value(self, entries: Integers) -> NoisyStatistics:
        exact, free = self.exact, self.exact.free
        counts = entries[free.counts]
        room = len(counts) * self._room(self.privacy.counts)
        samples = sum(counts.tolist())
        if samples > self.most_total_samples + room:
            check_samples(samples, self.most_total_samples)
        check_entries(counts, -room, self.most_total_samples + room)
        most = exact.most_product + self._most_noise
        check_entries(entries[free.counts.stop :], -most, most)
        more = math.sqrt(self.keyholders)
        noise = {name: getattr(self.privacy, name) * more for name in ("gram", "cross", "counts")}
        privacy = replace(self.privacy, **noise)
        return NoisyStatistics.of(exact.space, exact.class_names, entries, privacy)

    def hide(self, masks: Bytes, draw: Draw = draw_discrete_gaussian) -> None:
        """Take one keyholder's noise off the sum of its masks, in place: what opens has it."""
        noise = draw_noise(self.exact.layout, len(self.exact.class_names), self.privacy, draw)
        Sizes.of(self).add(masks, pack(self, noise), -1)
