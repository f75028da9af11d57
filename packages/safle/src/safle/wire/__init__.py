"""Statistics and histograms <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.wire import container as container
    from safle.wire.container import peek_file_type as peek_file_type
    from safle.wire.contribution import Contribution as Contribution
    from safle.wire.contribution import Entry as Entry
    from safle.wire.contribution import check_client as check_client
    from safle.wire.histogram import decode_histogram as decode_histogram
    from safle.wire.histogram import encode_histogram as encode_histogram
    from safle.wire.histogram import read_histogram as read_histogram
    from safle.wire.histogram import write_histogram as write_histogram
    from safle.wire.noisy import decode_noisy as decode_noisy
    from safle.wire.noisy import encode_noisy as encode_noisy
    from safle.wire.noisy import read_noisy as read_noisy
    from safle.wire.statistics import decode_statistics as decode_statistics
    from safle.wire.statistics import encode_statistics as encode_statistics
    from safle.wire.statistics import read_statistics as read_statistics
    from safle.wire.statistics import write_statistics as write_statistics

define_public_names(__name__)
