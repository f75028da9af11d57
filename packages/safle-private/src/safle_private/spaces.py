"""What rounds add up, as integers for masks: statistics, exact or with noise, and counts.

- statistics: class counts; class sums of free columns, column by column; free products, row by
  row; then those of each class, for columns that are counted by class (if all are, these alone).
  The free sums are those of noisy statistics, over the whole layout and all classes of the round:
  they must not show which codes and classes occurred. Class counts are wide, and so are sums that
  one sample may change by more than ``floor((2^31 - 1) / most_total_samples)``: by 1 for a code, by
  its largest magnitude for a dense column, by the product of both for a product;
- statistics with noise: the same, with max(0, 2^31 - 1 - room) in place of 2^31 - 1. The room is
  the first power of two from 16 sqrt(keyholders) times the noise's largest scale in any class sum
  or product, plus 1;
- a histogram: the number of samples, wide; the counts of all features without the last bin;
- evaluation counts: the number of samples, wide; their sections in the order of the file. Of both,
  the other entries are narrow if ``most_total_samples`` is below 2^31.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np

from safle.encoders import ClassName, CodeSpace, Encoder, as_class_names
from safle.errors import CountOverflow, InvariantError
from safle.evaluation import Evaluation, shapes
from safle.statistics import (
    FreeSums,
    Grid,
    Histogram,
    Statistics,
    restore_all,
    spread_all,
    take_all,
)
from safle_private.noise import Draw, draw_discrete_gaussian, draw_noise, plan_noise
from safle_private.noisy import NoisyStatistics, Privacy
from safle_private.vector import (
    MOST_NARROW,
    MOST_WIDE,
    Bytes,
    Integers,
    Mask,
    Sizes,
    pack,
    require_vector,
)

REACH = 16
"""The moduli have room for noise of so many scales: larger noise has a chance below 1e-50."""


@dataclass(frozen=True)
class StatisticsSpace:
    """The free sums of statistics over a whole layout and all classes of a round.

    Attributes
    ----------
    privacy : what each keyholder's noise promises; None if the sum opens exactly
    keyholders : how many add that noise

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.publishable(declared_range(0, 1, feature_dim=2))
    >>> sent = count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> space = StatisticsSpace.of(encoder, ["ill", "well"], most_total_samples=1000)
    >>> space.value(space.entries(sent)) == sent
    True
    >>> space.with_noise(2.0, 1e-5, "declared", keyholders=2).privacy.promise
    'epsilon 2, delta 1e-05'
    """

    space: CodeSpace
    class_names: tuple[ClassName, ...]
    most_total_samples: int
    privacy: Privacy | None = None
    keyholders: int = 0

    def __post_init__(self) -> None:
        layout = self.space.layout
        if not 1 <= self.most_total_samples <= layout.most_samples:
            raise CountOverflow(
                f"most_total_samples {self.most_total_samples}; expected 1 to {layout.most_samples}"
            )
        if self._most_product + self._most_noise > MOST_WIDE:
            raise CountOverflow(
                f"at most {self.most_total_samples} samples, and their noise, take more than 64 "
                "bits a number: declare fewer samples"
            )

    @staticmethod
    def of(
        encoder: Encoder, classes: Sequence[ClassName], most_total_samples: int
    ) -> StatisticsSpace:
        """The space of statistics of an encoder, and of every class that any client may have."""
        return StatisticsSpace(encoder.space, as_class_names(classes), most_total_samples)

    def with_noise(
        self, epsilon: float, delta: float, calibration: str, keyholders: int
    ) -> StatisticsSpace:
        """The same space, but its sum opens only with noise: each keyholder adds its own.

        Each adds all the noise that the promise needs: one honest keyholder is enough to keep the
        promise, even against the server. The price is a variance as many times as large as there
        are keyholders. A layout without a clip, and promises that cannot be kept, are refused.

        Parameters
        ----------
        epsilon, delta : what every keyholder's noise promises by itself
        calibration : where the encoder's thresholds came from, "declared" or "public"
        """
        privacy = plan_noise(self.space.layout, epsilon, delta, calibration=calibration)
        return replace(self, privacy=privacy, keyholders=keyholders)

    @cached_property
    def free(self) -> FreeSums:
        """The free sums of all codes and classes."""
        return FreeSums(self.space.layout, len(self.class_names))

    @cached_property
    def wide(self) -> Mask:
        """The class counts, and all sums that may leave 32 bits."""
        require_vector(17 * self.free.size)
        room = max(0, MOST_NARROW - self._most_noise)
        classes = len(self.class_names)
        largest = spread_all(self.space.layout, classes, np.maximum(self.free.largest, 1))
        wide: Mask = largest > room // self.most_total_samples
        wide[self.free.counts] = True
        return wide

    @property
    def _most_sum(self) -> int:
        """The largest magnitude of any class sum."""
        return int(self.free.largest.max(initial=1)) * self.most_total_samples

    @property
    def _most_product(self) -> int:
        """The largest magnitude of any product."""
        return int(self.free.largest.max(initial=1)) * self._most_sum

    @property
    def _most_noise(self) -> int:
        """The largest magnitude of noise in any class sum or product."""
        if self.privacy is None:
            return 0
        largest = int(self.space.layout.scales.max(initial=1))
        return self._room(max(self.privacy.cross * largest, self.privacy.gram * largest**2))

    def _room(self, scale: float) -> int:
        # A power of two: it is the same on every machine, whatever the last bits of the scale.
        return 1 << math.ceil(math.log2(REACH * scale * math.sqrt(self.keyholders) + 1))

    def entries(self, value: Statistics) -> Integers:
        self.space.check_same(value.space)
        _check_samples(value.sample_count, self.most_total_samples)
        if unknown := sorted({*value.class_names} - {*self.class_names}, key=str):
            raise InvariantError(f"class {unknown[0]!r} is not among those that the round declares")
        return take_all(value, self.class_names)

    def value(self, entries: Integers) -> Statistics | NoisyStatistics:
        free, counts = self.free, entries[self.free.counts]
        room = 0 if self.privacy is None else len(counts) * self._room(self.privacy.counts)
        samples = sum(counts.tolist())
        if not -room <= samples <= self.most_total_samples + room:
            _check_samples(samples, self.most_total_samples)
        _check_entries(counts, -room, self.most_total_samples + room)
        for sums, most in (
            (entries[free.cross], self._most_sum + self._most_noise),
            (entries[free.cross.stop :], self._most_product + self._most_noise),
        ):
            _check_entries(sums, -most, most)
        if self.privacy is not None:
            return NoisyStatistics.of(self.space, self.class_names, entries, self._total_privacy)
        statistics = restore_all(self.space, self.class_names, entries)
        statistics.verify()
        return statistics

    @property
    def _total_privacy(self) -> Privacy:
        """The promise of one keyholder, with the noise of all of them."""
        assert self.privacy is not None, "an exact sum has no noise"
        scales = {name: getattr(self.privacy, name) for name in ("gram", "cross", "counts")}
        factor = math.sqrt(self.keyholders)
        return replace(self.privacy, **{name: scale * factor for name, scale in scales.items()})

    def hide(self, masks: Bytes, draw: Draw = draw_discrete_gaussian) -> None:
        """Subtract a keyholder's noise from its sum of masks, in place: the opened sum has it."""
        assert self.privacy is not None, "an exact sum has no noise"
        noise = draw_noise(self.space.layout, len(self.class_names), self.privacy, draw)
        Sizes.of(self).add(masks, pack(self, noise), -1)


@dataclass(frozen=True)
class HistogramSpace:
    """The counts of histograms on one grid; the last bin of a feature follows from the samples.

    Examples
    --------
    >>> grid = Grid(0, 4, feature_dim=1, bins=4)
    >>> sent = Histogram.of(np.array([[0.5], [2.5]]), grid)
    >>> space = HistogramSpace(grid, most_total_samples=1000)
    >>> space.value(space.entries(sent)) == sent
    True
    """

    privacy: ClassVar[None] = None
    grid: Grid
    most_total_samples: int

    @property
    def wide(self) -> Mask:
        return _wide_counts(self.grid.feature_dim * (self.grid.bins + 1), self.most_total_samples)

    def entries(self, value: Histogram) -> Integers:
        # The addition refuses a histogram of another grid or width.
        empty = Histogram(
            self.grid, np.zeros((self.grid.feature_dim, self.grid.bins + 2), np.int64)
        )
        counts = (empty + value).counts
        _check_samples(value.sample_count, self.most_total_samples)
        return np.concatenate([[value.sample_count], counts[:, :-1].reshape(-1)])

    def value(self, entries: Integers) -> Histogram:
        samples = _samples_of(entries, self.most_total_samples)
        free = entries[1:].reshape(self.grid.feature_dim, -1)
        last = samples - free.sum(axis=1)
        return Histogram(self.grid, np.column_stack([free, last]))


@dataclass(frozen=True)
class EvaluationSpace:
    """The counts of one model's answers.

    Examples
    --------
    >>> space = EvaluationSpace("0" * 64, ("ill", "well"), most_total_samples=1000)
    >>> empty = Evaluation.empty("0" * 64, ["ill", "well"])
    >>> space.value(space.entries(empty)) == empty
    True
    """

    privacy: ClassVar[None] = None
    model: str
    class_names: tuple[ClassName, ...]
    most_total_samples: int

    @property
    def wide(self) -> Mask:
        counts = sum(map(prod, shapes(len(self.class_names)).values()))
        return _wide_counts(counts, self.most_total_samples)

    def entries(self, value: Evaluation) -> Integers:
        value.require(self.model, self.class_names)
        _check_samples(value.sample_count, self.most_total_samples)
        tables = [getattr(value, name).reshape(-1) for name in shapes(len(self.class_names))]
        return np.concatenate([[value.sample_count], *tables])

    def value(self, entries: Integers) -> Evaluation:
        samples, start = _samples_of(entries, self.most_total_samples), 1
        parts: dict[str, Any] = {}
        for name, shape in shapes(len(self.class_names)).items():
            parts[name] = entries[start : start + prod(shape)].reshape(shape)
            start += prod(shape)
        counts = Evaluation(self.model, self.class_names, **parts)
        if counts.sample_count != samples:
            raise InvariantError(
                f"the counts are of {counts.sample_count} samples, but the sum says {samples}: a "
                "client or a keyholder did not keep to the round; begin a new one"
            )
        return counts


def _wide_counts(counts: int, most_total_samples: int) -> Mask:
    """The number of samples, and all counts if they may exceed 31 bits."""
    require_vector(9 * counts)
    wide = np.full(1 + counts, most_total_samples > MOST_NARROW)
    wide[0] = True
    return wide


def _samples_of(entries: Integers, most_total_samples: int) -> int:
    samples = int(entries[0])
    _check_samples(samples, most_total_samples)
    _check_entries(entries[1:], 0, most_total_samples)
    return samples


def _check_samples(found: int, most: int) -> None:
    """Refuse more samples than the moduli were chosen for."""
    if not 0 <= found <= most:
        raise CountOverflow(
            f"{found:,} samples; the round allows {most:,}, which its moduli were chosen for: "
            "declare a round for more"
        )


def _check_entries(entries: Integers, least: int, most: int) -> None:
    """Refuse an opened sum whose entries no clients can have counted."""
    found = int(entries.min(initial=0)), int(entries.max(initial=0))
    if found[0] < least or found[1] > most:
        raise InvariantError(
            f"the opened sum has entries from {found[0]} to {found[1]}; possible are {least} to "
            f"{most}: a client or a keyholder did not keep to the round; begin a new one"
        )
