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

Examples
--------
>>> from safle import as_class_names, is_digest
>>> as_class_names(["well", "ill"]), is_digest("0" * 64)
(('ill', 'well'), True)
"""
