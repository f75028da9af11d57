"""A file or a frame -> a table: the suffix chooses the reader, and labels join the features."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.errors import SafleWarning, TableError
from safle.tables.arrays import read_npz_table, read_safetensors_table
from safle.tables.cells import is_rounded, widen
from safle.tables.column_files import COLUMN_SUFFIXES, open_columns
from safle.tables.columns import clean_labels, name_labels, read_column_table
from safle.tables.schema import Schema
from safle.tables.sources import ROUNDED, frame_names, from_frame
from safle.tables.table import Table, check_features, existing_file, refuse_options

# Readers return labels as the file has them; `_check_labels` checks and names them.
_ARRAYS = {".npz": read_npz_table, ".safetensors": read_safetensors_table}
_IMAGES = "; images become features with 'safle features' (package safle-images)"


def open_table(
    source: str | os.PathLike[str] | Any,
    *,
    labels: ArrayLike | None = None,
    split: str | None = None,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    id_column: str | None = None,
    schema: Schema | None = None,
    names: Sequence[str] = (),
) -> Table:
    """Open a file or a frame of features, with labels if there are any.

    Parameters
    ----------
    source
        A .npz, .safetensors, .parquet or .csv file, or a pandas, polars or pyarrow frame.
    labels
        An array that replaces the labels in ``source``.
    split
        Which ``<split>_features`` and ``<split>_labels`` to read (.npz, .safetensors), if the file
        has several.
    label_column
        The column of labels. By default it is the schema's, or ``label``, and may be missing.
    ignore
        Columns that are not read. A warning names those that are not there.
    id_column
        The column with each sample's name. It is not a feature; the table keeps it as ``ids``.
    schema
        What the columns are, as an encoder of kind ``table`` declares it: levels become numbers,
        and missing values NaN.
    names
        The features, in this order, if columns have names; by default all other columns.

    Returns
    -------
    table : Table
        Integer labels stay integers and strings stay strings. Two kinds of files differ: where
        the metadata of a .safetensors file have ``classes``, labels become these names; a .csv
        column of nothing but integers becomes integers.

    Examples
    --------
    >>> import polars
    >>> frame = polars.DataFrame({"length": [46.0, 60.0], "label": ["cat", "dog"]})
    >>> table = open_table(frame)
    >>> table.features.tolist(), table.labels.tolist()
    ([[46.0], [60.0]], ['cat', 'dog'])
    """
    columns: dict[str, Any] = {
        "label_column": label_column,
        "ignore": ignore,
        "id_column": id_column,
    }
    if frame_names(source):
        where = "the frame"
        table = read_column_table(from_frame(source), schema=schema, names=names, **columns)
    else:
        where = str(source)
        file = existing_file(source, TableError)
        table = _read_file(file, split, columns, schema=schema, names=names)
    check_features(table.features, where=f"{where}: the array of features")
    if schema is not None:
        table = replace(table, features=_widen(table.features, where))
    given: Any = table.labels if labels is None else labels
    if given is None:
        return table
    return replace(table, labels=_check_labels(given, table, where=where))


def _widen(features: NDArray[Any], where: str) -> NDArray[Any]:
    """Features of a table with a schema, in float64: see `safle.tables.cells.widen`."""
    import polars as pl

    if features.dtype.kind != "f" or features.dtype.itemsize == 8:
        return features
    cells = pl.Series(np.ravel(features).astype(features.dtype.newbyteorder("=")))
    if is_rounded(cells):
        warnings.warn(f"{where}: has features {ROUNDED}", SafleWarning, stacklevel=3)
    return widen(cells).reshape(features.shape)


def _read_file(file: Path, split: str | None, columns: dict[str, Any], **expected: Any) -> Table:
    suffix = file.suffix.lower()
    try:
        if suffix in _ARRAYS:
            refuse_options(file, **columns)
            return _ARRAYS[suffix](file, split)
        if suffix in COLUMN_SUFFIXES:
            refuse_options(file, split=split)
            return read_column_table(open_columns(file), **columns, **expected)
    except OSError as error:
        raise TableError(f"{file}: cannot be read: {error}") from error
    known = ", ".join([*_ARRAYS, *COLUMN_SUFFIXES])
    raise TableError(f"{file}: unknown file type; expected one of {known}{_IMAGES}")


def _check_labels(given: ArrayLike, table: Table, *, where: str) -> NDArray[Any]:
    labels = clean_labels(given, where=f"{where}: the array of labels")
    rows = len(table)
    if len(labels) != rows:
        raise TableError(
            f"{where}: {len(labels)} labels for {rows} rows of features; expected one each"
        )
    if table.class_names is None:
        return labels
    return name_labels(labels, table.class_names, where=where)
