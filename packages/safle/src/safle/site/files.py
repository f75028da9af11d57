"""The files of whatever can leave a site: a kind for each type of value."""

from __future__ import annotations

from typing import Any

from safle.encoders.histogram import Histogram
from safle.evaluation.counts import EVALUATIONS, Evaluation
from safle.statistics.noisy import NoisyStatistics
from safle.statistics.value import Statistics, Sums
from safle.wire.files import FileKind
from safle.wire.histogram import HISTOGRAMS
from safle.wire.noisy import NOISY
from safle.wire.statistics import STATISTICS

FILE_KINDS: dict[type, FileKind[Any]] = {
    Statistics: STATISTICS,
    NoisyStatistics: NOISY,
    Histogram: HISTOGRAMS,
    Evaluation: EVALUATIONS,
}


def kind_for(value: Sums | Histogram | Evaluation) -> FileKind[Any]:
    """The kind of file that a value is written as.

    >>> import numpy as np
    >>> from safle import Grid
    >>> from safle.wire import decode_histogram
    >>> histogram = Histogram.of(np.array([[0.1], [0.7]]), Grid(0, 1, 4))
    >>> decode_histogram(kind_for(histogram).encode(histogram)) == histogram
    True
    """
    return FILE_KINDS[type(value)]
