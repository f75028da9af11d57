"""Statistics, histograms, evaluation counts <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.
"""

from safle.encoders.histogram import Histogram
from safle.statistics import Statistics
from safle.statistics.evaluation import Evaluation
from safle.wire.container import peek_kind
from safle.wire.evaluation import (
    decode_evaluation,
    encode_evaluation,
    read_evaluation,
    write_evaluation,
)
from safle.wire.histogram import (
    decode_histogram,
    encode_histogram,
    read_histogram,
    write_histogram,
)
from safle.wire.noisy import decode_noisy, encode_noisy, read_noisy
from safle.wire.statistics import (
    Added,
    add_contribution,
    decode_statistics,
    encode_statistics,
    open_statistics,
    read_statistics,
    write_statistics,
)

__all__ = [
    "Added",
    "add_contribution",
    "decode_evaluation",
    "decode_histogram",
    "decode_noisy",
    "decode_statistics",
    "encode",
    "encode_evaluation",
    "encode_histogram",
    "encode_noisy",
    "encode_statistics",
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


def encode(value: Statistics | Histogram | Evaluation) -> bytes:
    """The bytes of a file of whatever can leave a site."""
    if isinstance(value, Histogram):
        return encode_histogram(value)
    return encode_evaluation(value) if isinstance(value, Evaluation) else encode_statistics(value)
