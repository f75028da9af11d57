"""Statistics and histograms <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.wire.container import peek_kind
    from safle.wire.contribution import Contribution, Entry, check_client
    from safle.wire.histogram import (
        decode_histogram,
        encode_histogram,
        read_histogram,
        write_histogram,
    )
    from safle.wire.noisy import decode_noisy, encode_noisy, read_noisy
    from safle.wire.statistics import (
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
    "decode_histogram",
    "decode_noisy",
    "decode_statistics",
    "encode_histogram",
    "encode_noisy",
    "encode_statistics",
    "open_statistics",
    "peek_kind",
    "read_histogram",
    "read_noisy",
    "read_statistics",
    "write_histogram",
    "write_statistics",
]

__getattr__ = front_door(__name__)
