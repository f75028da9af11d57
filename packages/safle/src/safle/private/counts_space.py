"""Histograms and evaluation counts as integers, for masks.

Both begin with the number of samples, which is wide: more than a round allows are noticed, and do
not wrap. With no more than that, no other count does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from safle.encoders.features import ClassName
from safle.encoders.histogram import Grid, Histogram
from safle.errors import InvariantError
from safle.evaluation.counts import Evaluation, shapes
from safle.private.vector import (
    MOST_NARROW,
    Integers,
    Mask,
    check_entries,
    check_samples,
    require_vector,
)


def _wide(counts: int, most_total_samples: int) -> Mask:
    require_vector(9 * counts)
    wide = np.full(1 + counts, most_total_samples > MOST_NARROW)
    wide[0] = True
    return wide


def _samples(entries: Integers, most_total_samples: int) -> int:
    samples = int(entries[0])
    check_samples(samples, most_total_samples)
    check_entries(entries[1:], 0, most_total_samples)
    return samples


@dataclass(frozen=True)
class HistogramSpace:
    """The counts of histograms on one grid; the last bin of a feature follows from the samples.

    >>> from safle.private.vector import pack, unpack
    >>> grid = Grid(0, 4, bins=4)
    >>> sent = Histogram.of(np.array([[0.5], [2.5]]), grid)
    >>> space = HistogramSpace(grid, 1, 1000)
    >>> unpack(space, pack(space, space.entries(sent))) == sent
    True
    """

    grid: Grid
    feature_dim: int
    most_total_samples: int
    names: tuple[str, ...] = ()

    @property
    def wide(self) -> Mask:
        return _wide(self.feature_dim * (self.grid.bins + 1), self.most_total_samples)

    def entries(self, value: Histogram) -> Integers:
        # Added to none, a histogram of another grid or width says so.
        cells = np.zeros((self.feature_dim, self.grid.bins + 2), np.int64)
        none = Histogram(self.grid, cells, self.names)
        counts = (none + value).counts
        check_samples(value.sample_count, self.most_total_samples)
        return np.concatenate([[value.sample_count], counts[:, :-1].reshape(-1)])

    def value(self, entries: Integers) -> Histogram:
        samples = _samples(entries, self.most_total_samples)
        free = entries[1:].reshape(self.feature_dim, -1)
        last = samples - free.sum(axis=1)
        return Histogram(self.grid, np.column_stack([free, last]), self.names)


@dataclass(frozen=True)
class EvaluationSpace:
    """The counts of one model's answers.

    >>> from safle.private.vector import pack, unpack
    >>> space = EvaluationSpace("0" * 64, ("ill", "well"), most_total_samples=1000)
    >>> none = Evaluation.none("0" * 64, ["ill", "well"])
    >>> unpack(space, pack(space, space.entries(none))) == none
    True
    """

    model: str
    class_names: tuple[ClassName, ...]
    most_total_samples: int

    @property
    def wide(self) -> Mask:
        counts = sum(map(prod, shapes(len(self.class_names)).values()))
        return _wide(counts, self.most_total_samples)

    def entries(self, value: Evaluation) -> Integers:
        value.require(self.model, self.class_names)
        check_samples(value.sample_count, self.most_total_samples)
        tables = [getattr(value, name).reshape(-1) for name in shapes(len(self.class_names))]
        return np.concatenate([[value.sample_count], *tables])

    def value(self, entries: Integers) -> Evaluation:
        samples, at = _samples(entries, self.most_total_samples), 1
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
