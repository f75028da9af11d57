"""A path -> a table: picks the reader by suffix and joins features with labels."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from safle.encoders.schema import Schema
from safle.errors import TableError
from safle.tables.arrays import read_npy_table, read_npz_table, read_safetensors_table
from safle.tables.columns import read_column_table
from safle.tables.common import existing_file
from safle.tables.labels import as_labels, name_labels, read_label_file
from safle.tables.selection import Selection
from safle.tables.table import Table, check_features

# A reader gives labels as the file has them.
_READERS: dict[str, Callable[[Path, Selection], Table]] = {
    ".npz": read_npz_table,
    ".npy": read_npy_table,
    ".safetensors": read_safetensors_table,
    ".parquet": read_column_table,
    ".csv": read_column_table,
}
_ARCHIVES = frozenset({".zip", ".tar", ".tgz", ".tbz2", ".txz"})
"""Endings of collections of images, as safle-images reads them."""


def open_table(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    split: str | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    id_column: str | None = None,
    weight_column: str | None = None,
    schema: Schema | None = None,
) -> Table:
    """Open a file of features, with labels if there are any.

    Parameters
    ----------
    path : .npz, .npy, .safetensors, .parquet or .csv
    labels
        A second file with the labels, used instead of any in ``path``: a .npy array, or a
        .txt or .csv file with one label a line and no header.
    split
        Which ``<split>_features`` and ``<split>_labels`` (.npz, .safetensors), if several.
    features_key
        The array (.npz, .safetensors) or list column (.parquet) of features, if it is not
        called ``features`` or ``X``.
    labels_key
        The array of labels (.npz, .safetensors), if it is not called ``labels`` or ``y``.
    label_column
        The column of labels (.parquet, .csv). By default it is the schema's, or ``label``, and
        may be missing.
    ignore
        Columns (.parquet, .csv) that are not read, if they are there.
    id_column
        The column that says what each sample is called (.parquet, .csv): no feature, kept
        as the table's ``ids``.
    weight_column
        The column that says how often each sample is counted (.parquet, .csv), in whole numbers:
        no feature, kept as the table's ``weights``.
    schema
        What the columns (.parquet, .csv) are, as an encoder of kind ``table`` declares it:
        levels become numbers, and what is missing NaN.

    Returns
    -------
    table : Table
        Integer labels stay integers and strings stay strings, but those of a .safetensors
        file whose metadata has ``classes`` become those names, and a .csv column in which
        every label is an integer is one of integers.

    Raises
    ------
    TableError
        The file cannot be used.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from safle.tables import write_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pets.csv")
    >>> write_table(path, [[46.0, 4.5], [60.0, 23.0]], ["cat", "dog"])
    >>> table = open_table(path)
    >>> table.features[:].tolist(), table.labels.tolist()
    ([[46.0, 4.5], [60.0, 23.0]], ['cat', 'dog'])
    """
    names = label_column, tuple(ignore), id_column, weight_column
    selection = Selection(split, features_key, labels_key, *names, schema)
    _refuse_images(path)
    file = existing_file(path, TableError)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise TableError(f"{file}: unknown kind of file; expected one of {', '.join(_READERS)}")
    try:
        table = reader(file, selection)
        label_file = None if labels is None else existing_file(labels, TableError)
        found = table.labels if label_file is None else read_label_file(label_file)
    except OSError as error:
        raise TableError(f"{file}: cannot be read: {error}") from error
    check_features(table.features, where=f"{file}: the array of features")
    if found is None:
        return table
    return replace(table, labels=_labels(found, table, where=str(label_file or file)))


def _refuse_images(path: str | os.PathLike[str]) -> None:
    """Say what to do with a collection of images, which the core does not read."""
    place, file = str(path), Path(path)
    archived = any(suffix in _ARCHIVES for suffix in file.suffixes)
    if archived or file.is_dir() or place.startswith("hf:"):
        kind = "a directory" if file.is_dir() else "an archive" if archived else "a data set"
        raise TableError(
            f"{place}: is {kind}; expected a table of features. Turn images into features first: "
            f"'safle features {place} -o features.safetensors' (package safle-images)"
        )


def _labels(found: NDArray[Any], table: Table, *, where: str) -> NDArray[Any]:
    labels = as_labels(found, where=f"{where}: the array of labels")
    rows = len(table)
    if len(labels) != rows:
        hint = "; is its first line a header?" if len(labels) == rows + 1 else ""
        raise TableError(
            f"{where}: {len(labels)} labels for {rows} rows of features; expected one each{hint}"
        )
    if table.class_names is None:
        return labels
    return name_labels(labels, table.class_names, where=where)
