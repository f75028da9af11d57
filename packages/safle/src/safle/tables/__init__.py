"""Tables: files -> features and labels, with which counting and predicting start.

=============  ==========================================================================
suffix         what is read
=============  ==========================================================================
.npz           arrays ``features`` and ``labels``, or one pair per split: ``train_features`` and
               ``train_labels``
.safetensors   as .npz; a ``classes`` entry in the metadata names the integer labels
.parquet       every numeric column but the label column, or one list column ``features``
.csv           a header line, then every column but the label column is a feature
(a frame)      of pandas, polars or pyarrow: as .parquet
=============  ==========================================================================

Labels are optional: a table without them can be predicted, but not counted.
No reader ever unpickles.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.tables.arrays import read_moments as read_moments
    from safle.tables.arrays import write_features_file as write_features_file
    from safle.tables.arrays import write_moments as write_moments
    from safle.tables.columns import parse_labels as parse_labels
    from safle.tables.drafting import Draft as Draft
    from safle.tables.drafting import draft_schema as draft_schema
    from safle.tables.reading import open_table as open_table
    from safle.tables.table import Table as Table
    from safle.tables.table import choose_split as choose_split
    from safle.tables.table import existing_file as existing_file

define_public_names(__name__)
