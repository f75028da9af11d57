"""Rehearsal: what a client would send and give away, before it sends anything.

A model of four fifths of the samples classifies the fifth that was held out. A federation, with
more samples, does better than any client alone.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.progress import Progress, no_progress
from safle.encoders.base import Encoder
from safle.errors import InvalidInput, SafleWarning
from safle.model.model import Model
from safle.site.counting import count_table, describe_repeats
from safle.site.policy import Policy, Verdict
from safle.site.release import Release
from safle.solver.solving import solve
from safle.statistics import triangle
from safle.statistics.accumulator import count
from safle.statistics.cells import LEAST_CELL
from safle.statistics.exposure import Exposure
from safle.tables.findings import Findings
from safle.tables.table import Table
from safle.wire.formats import encode

HELD_OUT = 5
"""One of this many samples is held out, to judge the model of the others."""
MIN_FIT = 0.5
"""Share of columns below which we doubt that the features are the encoder's."""
MANY_JUDGED = 100
"""Held-out samples from which on "all right" is suspect; a good table had all of 36 right."""
_CALIBRATED_DEVIATIONS = 5
_SAMPLES_LOOKED_AT = 2_000


@dataclass(frozen=True)
class Rehearsal:
    """What one client's file would hold, and how good a model its samples alone make.

    Attributes
    ----------
    numbers : how many sums the file holds
    bytes : size of the file
    seconds : to encode, count and pack it on this machine
    exposure : which samples can be reconstructed from the file
    verdict : of a policy's rule on cells, as `safle policy` proposes it
    accuracy : share of ``judged`` held-out samples that the others classified right
    largest_class : accuracy of always naming the most frequent class of the held-out samples
    fit : share of the columns that fit the features: see `fitting_share`
    repeats : see `safle.site.counting.describe_repeats`
    """

    samples: int
    numbers: int
    bytes: int
    seconds: float
    exposure: Exposure
    verdict: Verdict
    accuracy: float
    judged: int
    largest_class: float
    fit: float
    repeats: str

    @property
    def error(self) -> float:
        """Standard error of the accuracy."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.judged)

    @property
    def doubts(self) -> list[str]:
        """What seems to be wrong with the samples."""
        doubts = [self.repeats] if self.repeats else []
        if self.fit < MIN_FIT:
            doubts.append(
                f"only {self.fit:.0%} of the columns fit; expected nearly all. Are these the "
                "columns and units, or for images the backbone, that the encoder was calibrated "
                "for?"
            )
        if self.largest_class < 1 and self.accuracy + 2 * self.error < self.largest_class:
            doubts.append(
                "your samples alone do worse than always naming the most frequent class: do "
                "features and labels belong together?"
            )
        if self.accuracy == 1 and self.largest_class < 1 and self.judged >= MANY_JUDGED:
            doubts.append(
                f"all {self.judged:,} held-out samples were right: is the label, or a copy of it, "
                "among the features?"
            )
        return doubts


def rehearse(
    encoder: Encoder,
    table: Table,
    *,
    where: object,
    allow_outside: bool = False,
    progress: Progress = no_progress,
) -> Rehearsal:
    """Count and pack a labelled table as a client would; judge a fifth of its samples.

    The exposure is that of each different row counted once: ten copies of one patient are one
    patient. The arguments are those of `count_table`.
    """
    samples = len(table)
    if not samples:
        raise InvalidInput(
            f"{where}: has no samples, so there is nothing to send; is it the right file?"
        )
    if samples < HELD_OUT:
        raise InvalidInput(
            f"{where}: {samples} samples; a fifth of them cannot be held out: expected at least "
            f"{HELD_OUT}"
        )
    begun = time.perf_counter()
    statistics, rows, disguises = count_table(
        encoder,
        table,
        where=where,
        allow_outside=allow_outside,
        least_cell=LEAST_CELL,
        progress=lambda share: progress(0.4 * share),
    )
    size = len(encode(statistics))
    seconds = time.perf_counter() - begun
    pooled = 0 if statistics.layout.only_classes else triangle.packed_size(statistics.dim)
    numbers = pooled + statistics.cross.size + len(statistics.class_names)
    numbers += sum(triangle.packed_size(part.dim) for part in statistics.by_class)
    exposure = rows.exposure()
    release = Release(
        "statistics",
        samples,
        statistics.dim,
        cells=exposure.cells,
        disguises=disguises,
    )
    (verdict,) = Policy(least_cell=LEAST_CELL).judge(release)
    accuracy, judged, largest_class = _judge_held_out(
        encoder, table, lambda share: progress(0.4 + 0.5 * share)
    )
    return Rehearsal(
        statistics.sample_count,
        numbers,
        size,
        seconds,
        exposure,
        verdict,
        accuracy,
        judged,
        largest_class,
        fitting_share(encoder, np.asarray(table.features)),
        describe_repeats(len(table), rows.sample_count, table),
    )


def _judge_held_out(encoder: Encoder, table: Table, progress: Progress) -> tuple[float, int, float]:
    """Accuracy on the held-out samples, their number, and the share of their largest class."""
    features = np.asarray(table.features)
    labels = np.asarray(table.labels)
    held_out = np.random.default_rng(0).permutation(len(labels)) % HELD_OUT == 0
    kept = ~held_out
    with warnings.catch_warnings():
        # Counting the whole table has warned of values outside the range.
        warnings.simplefilter("ignore", SafleWarning)
        statistics = count(encoder, features[kept], labels[kept], allow_outside=True)
    model = Model.of(encoder, solve(statistics, progress=progress))
    scores = model.score_checked(encoder.contract.check(features[held_out]))
    right = model.classes_[scores.argmax(axis=1)] == labels[held_out]
    _, classes = np.unique(labels[held_out], return_inverse=True)
    judged = len(right)
    return float(right.mean()), judged, float(np.bincount(classes).max() / judged)


def fitting_share(encoder: Encoder, features: NDArray[Any]) -> float:
    """Share of the columns that fit the features, (samples, feature_dim).

    A column that never varies, or lies far off its calibrated deviation, was calibrated
    for other features; so was a feature with too many values outside its range.
    """
    outside = Findings(encoder.contract)
    checked = encoder.contract.check(features)
    outside.add(checked)
    inside = 1 - len(outside.too_many) / encoder.feature_dim
    codes = encoder.encode_checked(checked[:_SAMPLES_LOOKED_AT])
    values = codes.dense / encoder.layout.scales
    dense_fits = (codes.dense != codes.dense[:1]).any(axis=0)
    dense_fits &= np.sqrt((values**2).mean(axis=0)) <= _CALIBRATED_DEVIATIONS
    dense_fits = np.delete(dense_fits, encoder.layout.constants)
    symbols_fit = (codes.symbols != codes.symbols[:1]).any(axis=0)
    if encoder.gaps:
        # A number's table of two codes says whether it is missing; it need not vary.
        symbols_fit = symbols_fit[encoder.layout.table_sizes > 2]
    return min(inside, float(np.concatenate([symbols_fit, dense_fits]).mean()))
