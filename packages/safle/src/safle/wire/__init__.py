"""Statistics and histograms <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.wire import container as container
    from safle.wire.container import peek_file_type as peek_file_type
    from safle.wire.formats import decode as decode
    from safle.wire.formats import encode as encode
    from safle.wire.formats import format_named as format_named
    from safle.wire.formats import read as read
    from safle.wire.formats import write as write

define_public_names(__name__)
