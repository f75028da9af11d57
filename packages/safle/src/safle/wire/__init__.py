"""Statistics, histograms, evaluation counts <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.
"""

from typing import Any

from safle.encoders.histogram import Histogram
from safle.statistics import Statistics
from safle.statistics.evaluation import Evaluation
from safle.statistics.noisy import NoisyStatistics
from safle.statistics.value import Sums
from safle.wire.container import peek_kind
from safle.wire.contribution import Contribution, Entry, check_client
from safle.wire.evaluation import (
    EVALUATIONS,
    decode_evaluation,
    encode_evaluation,
    read_evaluation,
    write_evaluation,
)
from safle.wire.files import FileKind
from safle.wire.histogram import (
    HISTOGRAMS,
    decode_histogram,
    encode_histogram,
    read_histogram,
    write_histogram,
)
from safle.wire.noisy import NOISY, decode_noisy, encode_noisy, read_noisy
from safle.wire.statistics import (
    STATISTICS,
    add_contribution,
    decode_statistics,
    encode_statistics,
    open_statistics,
    read_statistics,
    write_statistics,
)

__all__ = [
    "Contribution",
    "Entry",
    "add_contribution",
    "check_client",
    "decode_evaluation",
    "decode_histogram",
    "decode_noisy",
    "decode_statistics",
    "encode",
    "encode_evaluation",
    "encode_histogram",
    "encode_noisy",
    "encode_statistics",
    "kind_for",
    "kind_named",
    "open_statistics",
    "peek_kind",
    "read_evaluation",
    "read_histogram",
    "read_noisy",
    "read_statistics",
    "write_evaluation",
    "write_histogram",
    "write_statistics",
]


_BY_TYPE: dict[type, FileKind[Any]] = {
    NoisyStatistics: NOISY,
    Histogram: HISTOGRAMS,
    Evaluation: EVALUATIONS,
    Statistics: STATISTICS,
}


def kind_for(value: Sums | Histogram | Evaluation) -> FileKind[Any]:
    """The kind of file that a value is written as.

    >>> import numpy as np
    >>> from safle import Grid, Histogram
    >>> kind_for(Histogram.of(np.array([[0.1], [0.7]]), Grid(0, 1, 4))).name
    'histogram'
    """
    return next(kind for of, kind in _BY_TYPE.items() if isinstance(value, of))


def kind_named(name: str | None) -> FileKind[Any] | None:
    """The kind of file that `peek_kind` has found, if it is one of values; None for others.

    >>> kind_named("histogram").number, kind_named("private round")
    (2, None)
    """
    return next((kind for kind in _BY_TYPE.values() if kind.name == name), None)


def encode(value: Sums | Histogram | Evaluation) -> bytes:
    """The bytes of a file of whatever can leave a site.

    >>> import numpy as np
    >>> from safle import Grid, Histogram
    >>> histogram = Histogram.of(np.array([[0.1], [0.7]]), Grid(0, 1, 4))
    >>> decode_histogram(encode(histogram)) == histogram
    True
    """
    return kind_for(value).encode(value)
