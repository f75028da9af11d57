"""A sheet -> features, labels, ids and weights; labels also from arrays and files of their own."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.texts import name_some
from safle.encoders import features
from safle.encoders.cells import NotANumber, as_texts, read_series
from safle.encoders.features import MOST_WEIGHT, are_weights, find_places
from safle.encoders.frames import Sheet
from safle.errors import InvalidInput, TableError
from safle.tables.arrays import read_npy
from safle.tables.table import Selection, Table

if TYPE_CHECKING:
    from polars import Series

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


def read_column_table(sheet: Sheet, selection: Selection) -> Table:
    """Features and labels from the columns of a sheet."""
    label = selection.find_label(sheet.where, sheet.names)
    excluded = {label, *selection.find_excluded(sheet.where, sheet.names)}
    names = [name for name in sheet.names if name not in excluded]
    labels = None if label is None else _read_labels(sheet, label)
    schema = selection.schema
    matrix: NDArray[Any] | None
    if schema is not None:
        matrix = sheet.read_by_schema(schema, names)
        names = [*schema.names]
    elif (matrix := _read_lists(sheet, selection.features_key)) is not None:
        names = []
    else:
        names = _feature_columns(sheet, names)
        # Columns 0, 1, 2, ... are a plain matrix without names.
        has_names = names != [str(place) for place in range(len(names))]
        if has_names and selection.names:
            find_places(selection.names, names, where=sheet.where)
            names = [*selection.names]
        matrix = _read_numbers(sheet, names)
        names = names if has_names else []
    return Table(
        matrix,
        labels,
        names=tuple(names),
        ids=_read_ids(sheet, selection.id_column),
        weights=_read_weights(sheet, selection.weight_column),
    )


def _read_numbers(sheet: Sheet, names: Sequence[str]) -> NDArray[Any]:
    for name in names:
        _require_values(sheet, name, sheet.frame[name].is_null())
    return np.stack([sheet.numbers(name) for name in names], axis=1)


def _require_values(sheet: Sheet, name: str, missing: Series) -> None:
    if missing.any():
        sheet.refuse(
            int(missing.arg_max() or 0),
            f", column {name!r} has no value; expected a number: fill it or drop the row",
        )


def _feature_columns(sheet: Sheet, names: list[str]) -> list[str]:
    """The columns that are features: all of a CSV file, else those of numbers."""
    from polars import selectors

    if sheet.is_text:
        if not names:
            raise TableError(
                f"{sheet.where}: has no column but {name_some(sheet.names)}; expected features too"
            )
        return names
    numeric = selectors.float() | selectors.integer() | selectors.boolean()
    chosen = sheet.frame.select(names).select(numeric).columns
    if not chosen:
        raise TableError(
            f"{sheet.where}: has {name_some(sheet.names)}; expected numeric columns or a column "
            "'features' of lists: name another with --features-key KEY (features_key= in Python)"
        )
    return chosen


def _read_lists(sheet: Sheet, key: str | None) -> NDArray[Any] | None:
    """The one column whose cells are lists of numbers, (rows, width), if there is one."""
    import polars as pl

    list_columns = [c.name for c in sheet.frame if isinstance(c.dtype, pl.List | pl.Array)]
    if key is not None and key not in list_columns:
        raise TableError(
            f"{sheet.where}: no column {key!r} of lists of numbers; it has "
            f"{name_some(list_columns) or 'none, only ' + name_some(sheet.names)}"
        )
    name = key or "features"
    if name not in list_columns:
        return None
    column = sheet.frame[name]
    if isinstance(column.dtype, pl.List) and (not len(column) or column[0] is None):
        raise TableError(
            f"{sheet.where}: column {name!r} has no first row; expected lists of numbers"
        )
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    width = getattr(column.dtype, "size", None) or len(lists[0])
    has_gap = lists.list.eval(pl.element().is_null()).list.any()
    _require_values(sheet, name, lists.is_null() | has_gap.fill_null(value=False))
    uneven = lists.list.len() != width
    if uneven.any():
        row = int(uneven.arg_max() or 0)
        sheet.refuse(
            row,
            f", column {name!r} has {len(lists[row])} values, the first row {width}; expected "
            "one length",
        )
    return lists.list.to_array(width).to_numpy()


def _read_labels(sheet: Sheet, name: str) -> NDArray[Any]:
    import polars as pl

    column = sheet.frame[name]
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    is_text = column.dtype == pl.String
    # With spaces around it, a label would be another class.
    cells = column.fill_null("").str.strip_chars() if is_text else column
    missing = cells == "" if is_text else cells.is_null()
    if missing.any():
        sheet.refuse(int(missing.arg_max() or 0), " has no label; expected one per row")
    if sheet.is_text:
        return parse_labels(cells.to_list(), where=sheet.where)
    return np.array(cells.to_list(), np.str_) if is_text else cells.to_numpy()


def _read_ids(sheet: Sheet, name: str | None) -> NDArray[Any] | None:
    if name is None:
        return None
    return np.array(as_texts(sheet.frame[name]).str.strip_chars().to_list(), np.str_)


def _read_weights(sheet: Sheet, name: str | None) -> NDArray[np.int64] | None:
    if name is None:
        return None
    try:
        values = read_series(sheet.texts(name))
        wrong = ~are_weights(values)
        row = int(np.argmax(wrong)) if wrong.any() else None
    except NotANumber as error:
        row = error.row
    if row is not None:
        sheet.refuse(
            row,
            f" has a weight that is no whole number from 0 to {MOST_WEIGHT:,}; expected how often "
            "the sample is counted",
        )
    return values.astype(np.int64)


def clean_labels(values: ArrayLike, *, where: str) -> NDArray[Any]:
    """Labels, (samples,) or (samples, 1), as int64 or str, (samples,), bytes as text."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise TableError(f"{where} has shape {array.shape}; expected one label a sample")
    if array.dtype.kind == "S":
        try:
            array = np.strings.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{where} has bytes that are not UTF-8; save text") from None
    if array.dtype.kind == "U":
        # With spaces around it, a label would be another class.
        array = np.strings.strip(array)
    try:
        return features.as_labels(array, len(array))
    except InvalidInput as error:
        raise TableError(f"{where}: {error}") from None


def parse_labels(texts: Sequence[str], *, where: str) -> NDArray[Any]:
    """Labels from text: int64 if every one is an integer, else all are strings.

    Examples
    --------
    >>> [parse_labels(texts, where="here").tolist() for texts in (["7", "8"], ["7", "b"])]
    [[7, 8], ['7', 'b']]
    """
    if all(_INTEGER.fullmatch(text) for text in texts):
        try:
            return np.array([int(text) for text in texts], dtype=np.int64)
        except (OverflowError, ValueError):
            raise TableError(
                f"{where} has an integer label that does not fit in 64 signed bits; "
                "put a letter before the numbers to make them names"
            ) from None
    return np.array([text.strip() for text in texts], dtype=np.str_)


def name_labels(labels: NDArray[Any], names: tuple[str, ...], *, where: str) -> NDArray[Any]:
    """The ``names`` of class 0, 1, ... for class numbers; labels that are names stay."""
    if labels.dtype.kind == "U":
        return labels
    unknown = (labels < 0) | (labels >= len(names))
    if unknown.any():
        raise TableError(
            f"{where}: the label at sample {int(np.argmax(unknown))} is no class; expected 0 to "
            f"{len(names) - 1}, as the metadata name {len(names)} classes: correct 'classes' or "
            "the labels"
        )
    named: NDArray[np.str_] = np.array(names, dtype=np.str_)[labels]
    return named


def read_label_file(path: Path) -> NDArray[Any]:
    """Labels from a .npy array or from a .txt or .csv file with one label a line."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return clean_labels(read_npy(path), where=str(path))
    if suffix not in (".txt", ".csv"):
        raise TableError(
            f"{path}: labels in a {suffix or 'suffixless'} file; "
            "expected .npy, or .txt or .csv with one label a line"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise TableError(f"{path}: not UTF-8 text; save it as UTF-8") from None
    rows = [*csv.reader(lines)] if suffix == ".csv" else [[line] for line in lines]
    for number, row in enumerate(rows, start=1):
        if len(row) > 1:
            raise TableError(
                f"{path}: line {number} has {len(row)} cells; expected one label a line "
                "and no header (a table of features is given as the first file)"
            )
        if not "".join(row).strip():
            raise TableError(f"{path}: line {number} is empty; expected one label a line")
    return parse_labels([row[0] for row in rows], where=str(path))
