"""Statistics that only open with noise: every keyholder takes its own off the masks it gives.

Each seed is one keyholder's alone, all of them are needed, and each adds the whole noise that the
round promises: as long as one of them is honest, nobody has less of it, the server included. The
price is as many times the variance as there are keyholders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import CountOverflow
from safle.private.statistics_space import StatisticsSpace
from safle.private.vector import Block, Bytes, add_vectors, check_samples, pack
from safle.publishing.publishing import Draw, draw_discrete_gaussian, draw_noise, plan_noise
from safle.statistics import Statistics
from safle.statistics.free_sums import FreeSums
from safle.statistics.kernels import triangle
from safle.statistics.noisy import NoisyStatistics
from safle.statistics.privacy import Privacy

WIDEST = 8
"""Bytes of a number."""
REACH = 16
"""Scales of the noise that the modulus has room for: beyond them lies less than 1e-50 of it."""


@dataclass(frozen=True)
class NoisySpace(StatisticsSpace):
    """The free integers of statistics, with room for the noise of so many keyholders.

    Attributes
    ----------
    epsilon, delta : that every keyholder's noise promises by itself
    calibration : where the encoder's thresholds came from, "declared" or "public"
    keyholders : how many add noise
    """

    epsilon: float
    delta: float
    calibration: str
    keyholders: int

    def __post_init__(self) -> None:
        super().__post_init__()
        # Refuses a layout without a clip, and promises that cannot be kept.
        self.privacy  # noqa: B018
        if any(block.width > WIDEST for block in self.blocks):
            raise CountOverflow(
                f"at most {self.most_total_samples} samples, and their noise, take more than "
                f"{WIDEST} bytes a number: declare fewer samples"
            )

    @cached_property
    def privacy(self) -> Privacy:
        """What one keyholder's noise promises: worked out here, whatever a round file says."""
        return plan_noise(self.layout, self.epsilon, self.delta, calibration=self.calibration)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        counts, *others = super().blocks
        largest = max(self.layout.dense_scales, default=1)
        rooms = {
            "class counts": self._room(self.privacy.counts),
            "class sums": self._room(self.privacy.cross * largest),
            "products": self._room(self.privacy.gram * largest**2),
        }
        # Wide enough for any number of samples, as without noise.
        exact = [replace(counts, high=counts.high - rooms[counts.name]), *others]
        return tuple(
            replace(block, low=block.low - rooms[block.name], high=block.high + rooms[block.name])
            for block in exact
        )

    def _room(self, scale: float) -> int:
        # A power of two: it is the same on every machine, whatever the last bits of the scale.
        return 1 << math.ceil(math.log2(REACH * scale * math.sqrt(self.keyholders) + 1))

    def arrays(self, value: Statistics | NDArray[np.int64]) -> Iterator[NDArray[np.integer[Any]]]:
        if isinstance(value, Statistics):
            return super().arrays(value)
        # A vector of noise for the free sums.
        sums = self._free.restore(value)
        return self._arrays(self._whole(sums.counts, sums.cross, sums.gram))

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> NoisyStatistics:
        counts, dim = next(arrays), self.layout.embedding_dim
        samples = sum(counts.tolist())
        if samples > self.most_total_samples + len(counts) * self._room(self.privacy.counts):
            check_samples(samples, self.most_total_samples)
        cross = np.zeros((dim, len(counts)), np.int64)
        for group in self._groups:
            cross[group.places] = next(arrays).reshape(-1, len(counts))
        gram = np.zeros(triangle.packed_size(dim), np.int64)
        for products in self._products:
            products.scatter(gram, dim, next(arrays))
        released = self._free.take(self._whole(counts, cross, gram), self.class_names)
        more = math.sqrt(self.keyholders)
        noise = {name: getattr(self.privacy, name) * more for name in ("gram", "cross", "counts")}
        return NoisyStatistics.of(self, self.class_names, released, replace(self.privacy, **noise))

    @cached_property
    def _free(self) -> FreeSums:
        return FreeSums(self.layout, len(self.class_names))

    def _whole(self, counts: Any, cross: Any, gram: Any) -> Statistics:
        codes = np.arange(self.layout.code_count)
        sums = codes, cross, self.class_names, counts, gram
        return Statistics(self.fingerprint, self.layout, *sums)

    def hide(self, masks: Bytes, draw: Draw = draw_discrete_gaussian) -> None:
        """Take one keyholder's noise off the sum of its masks, in place: what opens has it."""
        noise = draw_noise(self.layout, len(self.class_names), self.privacy, draw)
        add_vectors(self.blocks, masks, pack(self, noise), -1)


def with_noise(
    space: StatisticsSpace, epsilon: float, delta: float, calibration: str, keyholders: int
) -> NoisySpace:
    """What a round adds up, opened with noise only."""
    exact = space.fingerprint, space.layout, space.class_names, space.most_total_samples
    return NoisySpace(*exact, epsilon, delta, calibration, keyholders)
