"""Rehearsal: what a client's samples would send and give away, before anything is sent.

A fifth of the samples is held out, the rest is solved, and what is held out is classified. A
federation, with more samples, does better than any client alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders import Encoder
from safle.encoders.outside import Outside
from safle.errors import InvalidInput, SafleWarning
from safle.model import Model
from safle.site.counting import find_first
from safle.site.release import Exposure, find_exposure
from safle.solver import solve
from safle.statistics import Statistics, count, triangle
from safle.tables import Table
from safle.wire import encode_statistics

HELD_OUT = 5
"""One sample in so many judges what the others make."""
LEAST_FIT = 0.5
"""Share of columns below which we doubt that the features are the encoder's."""
MANY_JUDGED = 100
"""Held-out samples that are hardly ever all right; of 36, a good table's were."""
_CALIBRATED_DEVIATIONS = 5
_SAMPLES_LOOKED_AT = 2_000


@dataclass(frozen=True)
class Rehearsal:
    """What one client's file would be, and what its samples make on their own.

    Attributes
    ----------
    numbers : how many sums the file holds
    bytes : of the file
    seconds : to encode, count and pack it on this machine
    exposure : which samples can be worked out of it
    accuracy : share of ``judged`` held-out samples that the others classified right
    largest_class : what always naming their most frequent class would have had
    fit : share of the columns that the features make proper use of
    """

    samples: int
    numbers: int
    bytes: int
    seconds: float
    exposure: Exposure
    accuracy: float
    judged: int
    largest_class: float
    fit: float

    @property
    def error(self) -> float:
        """Standard error of the accuracy."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.judged)

    @property
    def doubts(self) -> list[str]:
        """What seems to be wrong with the samples."""
        found = []
        if self.fit < LEAST_FIT:
            found.append(
                f"only {self.fit:.0%} of the columns fit; expected nearly all. Are these the "
                "columns and units, or for images the backbone, that the encoder was calibrated "
                "for?"
            )
        if self.largest_class < 1 and self.accuracy + 2 * self.error < self.largest_class:
            found.append(
                "your samples alone do worse than always naming the most frequent class: do "
                "features and labels belong together?"
            )
        if self.accuracy == 1 and self.largest_class < 1 and self.judged >= MANY_JUDGED:
            found.append(
                f"all {self.judged:,} held-out samples were right: is the label, or a copy of it, "
                "among the features?"
            )
        return found


def rehearse(
    encoder: Encoder,
    features: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.int64] | None = None,
    *,
    allow_outside: bool = False,
    progress: Callable[[float], None] = lambda _share: None,
) -> Rehearsal:
    """Count and pack samples, (samples, feature_dim), as a client would; judge a fifth of them.

    What can be worked out is judged by each different row once: ten times one patient is one
    patient. ``progress`` is called with the finished share, 0 to 1.
    """
    begun = time.perf_counter()
    statistics = count(encoder, features, labels, weights=weights, allow_outside=allow_outside)
    size = len(encode_statistics(statistics))
    seconds = time.perf_counter() - begun
    progress(0.4)
    pooled = 0 if statistics.layout.only_by_class else triangle.packed_size(statistics.dim)
    numbers = pooled + statistics.cross.size + len(statistics.class_names)
    numbers += sum(triangle.packed_size(gram.dim) for gram in statistics.class_grams)
    once = _count_once(encoder, Table(features, labels, weights=weights)) or statistics
    alone = _judge_alone(encoder, features, labels, weights, lambda x: progress(0.4 + 0.5 * x))
    return Rehearsal(
        statistics.sample_count,
        numbers,
        size,
        seconds,
        find_exposure(once),
        *alone,
        fitting_share(encoder, features),
    )


def _count_once(encoder: Encoder, table: Table) -> Statistics | None:
    """Statistics of each different row; None if they are those of all samples."""
    first = find_first(table)
    if first is None:
        return None
    return _count_silently(encoder, table.features, np.asarray(table.labels), first)


def _count_silently(
    encoder: Encoder, features: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any]
) -> Statistics:
    """Count a part of a table; what lies outside is said of all of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SafleWarning)
        return count(encoder, features, labels, weights=weights, allow_outside=True)


def _judge_alone(
    encoder: Encoder,
    features: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.int64] | None,
    progress: Callable[[float], None],
) -> tuple[float, int, float]:
    """Accuracy of a fifth of the samples by the others, how many judge, and their largest class.

    A sample of weight w is held out, or counted, w times.
    """
    times = np.ones(len(labels), np.int64) if weights is None else weights
    features, labels, times = features[times > 0], labels[times > 0], times[times > 0]
    if len(labels) < HELD_OUT:
        raise InvalidInput(f"{len(labels)} samples; a fifth of them cannot be held out")
    held = np.random.default_rng(0).permutation(len(labels)) % HELD_OUT == 0
    statistics = _count_silently(encoder, features[~held], labels[~held], times[~held])
    model = Model(encoder, solve(statistics, progress=progress))
    scores = model.score_checked(encoder.check(features[held]))
    right, judging = model.classes_[scores.argmax(axis=1)] == labels[held], times[held]
    _, places = np.unique(labels[held], return_inverse=True)
    judged = int(judging.sum())
    return (
        float(judging[right].sum() / judged),
        judged,
        float(np.bincount(places, judging).max() / judged),
    )


def fitting_share(encoder: Encoder, features: NDArray[Any]) -> float:
    """Share of the columns that the features, (samples, feature_dim), make proper use of.

    A column that never varies, or lies far off its calibrated deviation, was calibrated
    for other features; so was a feature of which too many values lie outside its range.
    """
    outside = Outside(encoder)
    outside.add(encoder.check(features))
    inside = 1 - len(outside.too_many) / encoder.feature_dim
    codes = encoder.encode(features[:_SAMPLES_LOOKED_AT])
    values = codes.dense / np.array(encoder.layout.dense_scales, np.float64)
    dense = (codes.dense != codes.dense[:1]).any(axis=0)
    dense &= np.sqrt((values**2).mean(axis=0)) <= _CALIBRATED_DEVIATIONS
    dense = np.delete(dense, encoder.layout.constants)
    symbols = (codes.symbols != codes.symbols[:1]).any(axis=0)
    if encoder.gaps:
        # A number that is never missing is as it should be.
        symbols = symbols[np.array(encoder.layout.table_sizes) > 2]
    return min(inside, float(np.concatenate([symbols, dense]).mean()))
