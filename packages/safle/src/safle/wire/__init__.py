"""Statistics and histograms <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.

Examples
--------
A format of another house says which fields and arrays a file has, and how they are checked:

>>> from safle import LinearEncoder, count, declared_range
>>> from safle.wire import *
>>> def describe(sums):
...     return sums.declaration(), {"counts": sums.class_counts}
>>> def restore(opened):
...     header = read_header(SpaceHeader, opened)
...     check_space(header, None, opened.limit)
...     counts = opened.array("counts", (len(header.classes),))
...     opened.finish()
...     return counts.tolist()
>>> counts_alone = FileFormat(container.NOISY, describe, restore)
>>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
>>> data = counts_alone.encode(count(encoder, [[0.2], [0.7]], ["ill", "well"]))
>>> counts_alone.open(data)[0]
[1, 1]
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.wire import container as container
    from safle.wire.container import peek_file_type as peek_file_type
    from safle.wire.formats import FileFormat as FileFormat
    from safle.wire.formats import decode as decode
    from safle.wire.formats import encode as encode
    from safle.wire.formats import format_named as format_named
    from safle.wire.formats import read as read
    from safle.wire.formats import read_header as read_header
    from safle.wire.formats import write as write
    from safle.wire.statistics import SpaceHeader as SpaceHeader
    from safle.wire.statistics import check_space as check_space

define_public_names(__name__)
