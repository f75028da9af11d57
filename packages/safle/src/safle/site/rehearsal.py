"""Rehearsals: what a contribution weighs and takes, and what it is worth, before it is sent.

From an encoder alone: features are drawn as its calibration expects them, then counted and
packed for real. Real features hang together, drawn ones do not: real files were 7 % larger to
2 % smaller (`MARGIN` covers that), smaller by half where many features are constant.

From a client's own samples: a fifth of them is held out, the rest is solved, and what is
held out is classified. A federation, with more samples, does better than any client alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import readable
from safle.encoders import Encoder
from safle.encoders.outside import Outside
from safle.errors import InvalidInput, SafleWarning, SettingsError
from safle.model import Model
from safle.site.release import disclosures, name_given_away
from safle.solver import solve
from safle.statistics import count, triangle
from safle.wire import encode_statistics

MARGIN = 1.1
"""How much larger than its rehearsal a real contribution may be."""
HELD_OUT = 5
"""One sample in so many judges what the others make."""
_TRIED_UNITS = (64, 256, 512)
_CALIBRATED_DEVIATIONS = 5
_SAMPLES_LOOKED_AT = 2_000


@dataclass(frozen=True)
class Rehearsal:
    """What one client's file would be.

    Attributes
    ----------
    columns, numbers : of the gram, and how many sums the file holds
    bytes : of the file
    seconds : to encode, count and pack it on this machine
    gives_away : what can be worked out from it, from `safle.site.release`
    warning : the samples among it that can be worked out, in one sentence; empty if none
    """

    samples: int
    columns: int
    numbers: int
    bytes: int
    seconds: float
    gives_away: tuple[str, ...]
    warning: str


@dataclass(frozen=True)
class Worth:
    """What a client's samples make on their own.

    Attributes
    ----------
    accuracy : share of ``judged`` held-out samples that the others classified right
    largest_class : what always naming their most frequent class would have had
    """

    accuracy: float
    judged: int
    largest_class: float

    @property
    def error(self) -> float:
        """Standard error of the accuracy."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.judged)


def weigh(
    encoder: Encoder,
    features: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.int64] | None = None,
    *,
    allow_outside: bool = False,
) -> Rehearsal:
    """Count and pack samples, (samples, feature_dim), as a client would.

    What can be worked out is judged by each sample once, whatever its weight: ten times one
    patient is one patient.
    """
    begun = time.perf_counter()
    statistics = count(encoder, features, labels, weights=weights, allow_outside=allow_outside)
    size = len(encode_statistics(statistics))
    seconds = time.perf_counter() - begun
    pooled = 0 if statistics.layout.only_by_class else triangle.packed_size(statistics.dim)
    numbers = pooled + statistics.cross.size + len(statistics.class_names)
    numbers += sum(triangle.packed_size(part.dim) for part in statistics.by_class)
    once = statistics
    if weights is not None:
        once = count(encoder, features, labels, weights=weights > 0, allow_outside=True)
    told, warning = tuple(disclosures(once)), name_given_away(once)
    samples, dim = statistics.sample_count, statistics.dim
    return Rehearsal(samples, dim, numbers, size, seconds, told, warning)


def rehearse(encoder: Encoder, *, samples: int, classes: int) -> Rehearsal:
    """The contribution of a client with so many samples, evenly of so many classes.

    Where the encoder is for certain classes, of those.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=3))
    >>> found = rehearse(encoder, samples=40, classes=2)
    >>> found.samples, found.columns
    (40, 4)
    """
    features = encoder.plausible_features(samples, np.random.default_rng(0))
    names = np.array(encoder.classes or range(classes))
    labels = names[np.arange(samples) % len(names)]
    with _unheard():
        return weigh(encoder, features, labels, allow_outside=True)


def worth(
    encoder: Encoder,
    features: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.int64] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Worth:
    """What the samples, (samples, feature_dim), make alone: the fifth judges the others.

    A sample of weight w is held out, or counted, w times. ``progress`` is called with the finished
    share, 0 to 1.
    """
    times = np.ones(len(labels), np.int64) if weights is None else weights
    features, labels, times = features[times > 0], labels[times > 0], times[times > 0]
    if len(labels) < HELD_OUT:
        raise InvalidInput(f"{len(labels)} samples; a fifth of them cannot be held out")
    held = np.random.default_rng(0).permutation(len(labels)) % HELD_OUT == 0
    with _unheard():
        counted = features[~held], labels[~held]
        statistics = count(encoder, *counted, weights=times[~held], allow_outside=True)
    model = Model(encoder, solve(statistics, progress=progress))
    right, judging = model.predict(features[held]) == labels[held], times[held]
    _, places = np.unique(labels[held], return_inverse=True)
    most, n = np.bincount(places, judging).max(), int(judging.sum())
    return Worth(float(judging[right].sum() / n), n, float(most / n))


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


@contextmanager
def _unheard() -> Iterator[None]:
    """What lies outside is said of a client's whole table, not of a part or of made-up samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SafleWarning)
        yield


def units_within(
    make: Callable[[int], Encoder],
    most_bytes: float,
    *,
    most_units: int,
    samples: int,
    classes: int,
) -> int:
    """The most random features whose contribution stays within ``most_bytes``.

    A file grows with the square of the columns, so three small rehearsals say how large
    every other will be; the size chosen is rehearsed as well.

    Parameters
    ----------
    make : units -> encoder
    """

    def expected(units: int) -> float:
        return MARGIN * rehearse(make(units), samples=samples, classes=classes).bytes

    tried = {units: expected(units) for units in _TRIED_UNITS if units <= most_units}
    tried[1] = expected(1)
    if tried[1] > most_bytes:
        raise SettingsError(
            f"a client of {samples} samples would send about {readable(tried[1])} with a single "
            f"random feature, more than {readable(most_bytes)}; allow more, or take a linear "
            "encoder with fewer fraction bits"
        )
    powers = np.polyfit(list(tried), list(tried.values()), min(2, len(tried) - 1))
    fitting = np.flatnonzero(np.polyval(powers, np.arange(1, most_units + 1)) <= most_bytes)
    units = int(fitting.max(initial=0)) + 1
    while units > 1 and expected(units) > most_bytes:
        units = units * 31 // 32
    return units
