"""What rounds add up, as integers for masks: statistics, exact or with noise, and counts.

Statistics go as their free sums (`safle.statistics.free_sums`) over the whole layout and all
classes of a round: which codes and classes occurred must not show, and what follows from the rest
holds by construction in whatever is opened. Numbers of samples are always wide: more than a round
allows are noticed, and do not wrap; with no more than that, no other entry does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from safle.encoders.codes import CodeSpace, Layout
from safle.encoders.features import ClassName
from safle.encoders.histogram import Grid, Histogram
from safle.errors import CountOverflow, InvariantError
from safle.evaluation.counts import Evaluation, shapes
from safle.private.vector import (
    MOST_NARROW,
    MOST_WIDE,
    Bytes,
    Integers,
    Mask,
    Sizes,
    pack,
    require_vector,
)
from safle.publishing.noise import Draw, draw_discrete_gaussian, draw_noise, plan_noise
from safle.statistics import Statistics
from safle.statistics.free_sums import FreeSums
from safle.statistics.noisy import NoisyStatistics, Privacy

REACH = 16
"""Scales of the noise that the moduli have room for: beyond them lies less than 1e-50 of it."""


@dataclass(frozen=True)
class StatisticsSpace:
    """The free sums of statistics over a whole layout and all classes of a round.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> sent = count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"])
    >>> space = StatisticsSpace(encoder.space, ("ill", "well"), 1000)
    >>> space.value(space.entries(sent)) == sent
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
        return _wide_sums(self.free, MOST_NARROW // self.most_total_samples)

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
        _check_samples(value.sample_count, self.most_total_samples)
        if unknown := sorted({*value.class_names} - {*self.class_names}, key=str):
            raise InvariantError(f"class {unknown[0]!r} is not among those that the round declares")
        return self.free.take(value, self.class_names)

    def value(self, entries: Integers) -> Statistics:
        counts = entries[self.free.counts]
        _check_samples(sum(counts.tolist()), self.most_total_samples)
        _check_entries(counts, 0, self.most_total_samples)
        _check_entries(entries[self.free.cross], -self.most_sum, self.most_sum)
        _check_entries(entries[self.free.cross.stop :], -self.most_product, self.most_product)
        statistics = self.free.value(self.fingerprint, self.class_names, entries)
        statistics.verify()
        return statistics


@dataclass(frozen=True)
class NoisySpace:
    """Statistics that only open with noise: each keyholder takes its own off its masks' sum.

    Each adds the whole noise that the round promises: as long as one of them is honest, nobody
    has less of it, the server included. The price is as many times the variance as there are
    keyholders.

    Attributes
    ----------
    exact : what is added up
    epsilon, delta : that every keyholder's noise promises by itself
    calibration : where the encoder's thresholds came from, "declared" or "public"
    keyholders : how many add noise

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.publishable(DeclaredRange(0, 1, feature_dim=2))
    >>> exact = StatisticsSpace(encoder.space, ("ill", "well"), most_total_samples=1000)
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
        return _wide_sums(self.exact.free, room // self.most_total_samples)

    @property
    def _most_noise(self) -> int:
        """Most noise of any class sum or product."""
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
            _check_samples(samples, self.most_total_samples)
        _check_entries(counts, -room, self.most_total_samples + room)
        most = exact.most_product + self._most_noise
        _check_entries(entries[free.counts.stop :], -most, most)
        more = math.sqrt(self.keyholders)
        noise = {name: getattr(self.privacy, name) * more for name in ("gram", "cross", "counts")}
        privacy = replace(self.privacy, **noise)
        return NoisyStatistics.of(exact.space, exact.class_names, entries, privacy)

    def hide(self, masks: Bytes, draw: Draw = draw_discrete_gaussian) -> None:
        """Take one keyholder's noise off the sum of its masks, in place: what opens has it."""
        noise = draw_noise(self.exact.layout, len(self.exact.class_names), self.privacy, draw)
        Sizes.of(self).add(masks, pack(self, noise), -1)


@dataclass(frozen=True)
class HistogramSpace:
    """The counts of histograms on one grid; the last bin of a feature follows from the samples.

    Examples
    --------
    >>> grid = Grid(0, 4, bins=4)
    >>> sent = Histogram.of(np.array([[0.5], [2.5]]), grid)
    >>> space = HistogramSpace(grid, 1, most_total_samples=1000)
    >>> space.value(space.entries(sent)) == sent
    True
    """

    grid: Grid
    feature_dim: int
    most_total_samples: int
    names: tuple[str, ...] = ()

    @property
    def wide(self) -> Mask:
        return _wide_counts(self.feature_dim * (self.grid.bins + 1), self.most_total_samples)

    def entries(self, value: Histogram) -> Integers:
        # Added to none, a histogram of another grid or width says so.
        cells = np.zeros((self.feature_dim, self.grid.bins + 2), np.int64)
        none = Histogram(self.grid, cells, self.names)
        counts = (none + value).counts
        _check_samples(value.sample_count, self.most_total_samples)
        return np.concatenate([[value.sample_count], counts[:, :-1].reshape(-1)])

    def value(self, entries: Integers) -> Histogram:
        samples = _samples_of(entries, self.most_total_samples)
        free = entries[1:].reshape(self.feature_dim, -1)
        last = samples - free.sum(axis=1)
        return Histogram(self.grid, np.column_stack([free, last]), self.names)


@dataclass(frozen=True)
class EvaluationSpace:
    """The counts of one model's answers.

    Examples
    --------
    >>> space = EvaluationSpace("0" * 64, ("ill", "well"), most_total_samples=1000)
    >>> none = Evaluation.none("0" * 64, ["ill", "well"])
    >>> space.value(space.entries(none)) == none
    True
    """

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
        samples, at = _samples_of(entries, self.most_total_samples), 1
        parts: dict[str, Any] = {}
        for name, shape in shapes(len(self.class_names)).items():
            parts[name] = entries[at : at + prod(shape)].reshape(shape)
            at += prod(shape)
        counts = Evaluation(self.model, self.class_names, **parts)
        if counts.sample_count != samples:
            raise InvariantError(
                f"the counts are of {counts.sample_count} samples, and {samples} were said: a "
                "client or a keyholder did not keep to the round; begin a new one"
            )
        return counts


def _wide_sums(free: FreeSums, most: int) -> Mask:
    """The class counts, and all sums that one sample may change by more than ``most``."""
    require_vector(17 * free.size)
    wide: Mask = free.spread(np.maximum(free.largest, 1)) > most
    wide[free.counts] = True
    return wide


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
    """Refuse entries of an opened sum that no clients can have."""
    found = int(entries.min(initial=0)), int(entries.max(initial=0))
    if found[0] < least or found[1] > most:
        raise InvariantError(
            f"the opened sum has entries from {found[0]} to {found[1]}; possible are {least} to "
            f"{most}: a client or a keyholder did not keep to the round; begin a new one"
        )
