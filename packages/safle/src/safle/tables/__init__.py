"""Tables: files -> (features, labels). What a client or a predicting user starts from.

=============  ==========================================================================
suffix         what is read
=============  ==========================================================================
.npz           arrays ``features`` and ``labels``, or one pair per split: ``train_features`` and
               ``train_labels``
.npy           one array of features; labels come from a second file
.safetensors   as .npz; a ``classes`` entry in the metadata names the integer labels
.parquet       every numeric column but the label column, or one list column ``features``
.csv           a header line, then every column but the label column is a feature
(a frame)      of pandas, polars or pyarrow: as .parquet
=============  ==========================================================================

Labels are optional everywhere: a table without them can be predicted, not counted.
Nothing here ever unpickles.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.tables.arrays import read_moments, write_features_file, write_moments
    from safle.tables.columns import parse_labels
    from safle.tables.drafting import Draft, draft_schema
    from safle.tables.reading import open_matching, open_table
    from safle.tables.table import Rows, Table, choose_split, existing_file, listed

__all__ = [
    "Draft",
    "Rows",
    "Table",
    "choose_split",
    "draft_schema",
    "existing_file",
    "listed",
    "open_matching",
    "open_table",
    "parse_labels",
    "read_moments",
    "write_features_file",
    "write_moments",
]

__getattr__ = front_door(__name__)
