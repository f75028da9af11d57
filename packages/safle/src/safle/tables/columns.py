"""Columns with names -> features, labels and ids; labels also from arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.texts import name_some
from safle.errors import InvalidInput, TableError
from safle.tables.cells import as_texts
from safle.tables.checks import as_labels, find_places
from safle.tables.schema import LABEL_COLUMN
from safle.tables.sources import ColumnSource
from safle.tables.table import Table, find_excluded, find_label

if TYPE_CHECKING:
    from polars import Series

    from safle.tables.schema import Schema

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


def read_column_table(
    opened: ColumnSource,
    *,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    id_column: str | None = None,
    schema: Schema | None = None,
    names: Sequence[str] = (),
) -> Table:
    """Features and labels from columns with names; see `safle.tables.open_table`."""
    where = opened.where
    default = LABEL_COLUMN if schema is None else schema.label_column
    label = find_label(where, opened.names, label_column, default)
    excluded = {label, *find_excluded(where, opened.names, ignore, id_column, schema)}
    present = [name for name in opened.names if name not in excluded]
    matrix, found = _read_features(opened, present, schema, names)
    ids = None
    if id_column is not None:
        ids = np.array(as_texts(opened.frame[id_column]).str.strip_chars().to_list(), np.str_)
    return Table(
        matrix,
        None if label is None else _read_labels(opened, label),
        names=found,
        ids=ids,
    )


def _read_features(
    opened: ColumnSource, present: list[str], schema: Schema | None, wanted: Sequence[str]
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """The columns that are features, in the order that is ``wanted``, and their names."""
    if schema is not None:
        return opened.read_by_schema(schema, present), tuple(schema.names)
    lists = _read_lists(opened, present)
    if lists is not None:
        return lists, ()
    columns = _feature_columns(opened, present)
    # Columns 0, 1, 2, ... are a plain matrix without names.
    if columns == [str(place) for place in range(len(columns))]:
        return _read_numbers(opened, columns), ()
    if wanted:
        find_places(wanted, columns, where=opened.where)
        columns = [*wanted]
    return _read_numbers(opened, columns), tuple(columns)


def _read_numbers(opened: ColumnSource, names: Sequence[str]) -> NDArray[Any]:
    for name in names:
        _require_values(opened, name, opened.frame[name].is_null())
    return np.stack([opened.numbers(name) for name in names], axis=1)


def _require_values(opened: ColumnSource, name: str, missing: Series) -> None:
    if missing.any():
        opened.refuse(
            int(missing.arg_max() or 0),
            f", column {name!r} has no value; expected a number: fill it or drop the row",
        )


def _feature_columns(opened: ColumnSource, names: list[str]) -> list[str]:
    """The columns that are features: all of a CSV file, else those of numbers."""
    from polars import selectors

    if opened.is_text:
        if not names:
            only = name_some(opened.names)
            raise TableError(f"{opened.where}: has only {only}; expected features too")
        return names
    numeric = selectors.float() | selectors.integer() | selectors.boolean()
    chosen = opened.frame.select(names).select(numeric).columns
    if not chosen:
        raise TableError(
            f"{opened.where}: has {name_some(opened.names)}; expected numeric columns or a column "
            "'features' of lists of numbers"
        )
    return chosen


def _read_lists(opened: ColumnSource, present: list[str]) -> NDArray[Any] | None:
    """The column ``features`` if its cells are lists of numbers, (rows, width)."""
    import polars as pl

    name = "features"
    if name not in present or not isinstance(opened.frame[name].dtype, pl.List | pl.Array):
        return None
    column = opened.frame[name]
    if isinstance(column.dtype, pl.List) and (not len(column) or column[0] is None):
        raise TableError(
            f"{opened.where}: column {name!r} has no first row; expected lists of numbers"
        )
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    width = getattr(column.dtype, "size", None) or len(lists[0])
    has_gap = lists.list.eval(pl.element().is_null()).list.any()
    _require_values(opened, name, lists.is_null() | has_gap.fill_null(value=False))
    uneven = lists.list.len() != width
    if uneven.any():
        row = int(uneven.arg_max() or 0)
        opened.refuse(
            row,
            f", column {name!r} has {len(lists[row])} values, the first row {width}; expected "
            "one length",
        )
    return lists.list.to_array(width).to_numpy()


def _read_labels(opened: ColumnSource, name: str) -> NDArray[Any]:
    import polars as pl

    column = opened.frame[name]
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    is_text = column.dtype == pl.String
    # With spaces around it, a label would be another class.
    cells = column.fill_null("").str.strip_chars() if is_text else column
    missing = cells == "" if is_text else cells.is_null()
    if missing.any():
        opened.refuse(int(missing.arg_max() or 0), " has no label; expected one per row")
    if opened.is_text:
        return parse_labels(cells.to_list(), where=opened.where)
    return np.array(cells.to_list(), np.str_) if is_text else cells.to_numpy()


def clean_labels(values: ArrayLike, *, where: str) -> NDArray[Any]:
    """Labels, (samples,) or (samples, 1), as int64 or str, (samples,), bytes as text."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise TableError(f"{where} has shape {array.shape}; expected one label per sample")
    if array.dtype.kind == "S":
        try:
            array = np.strings.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{where} has bytes that are not UTF-8; save text") from None
    if array.dtype.kind == "U":
        # With spaces around it, a label would be another class.
        array = np.strings.strip(array)
    try:
        return as_labels(array, len(array))
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
            f"{where}: the label at sample {int(np.argmax(unknown))} is not a class; expected 0 to "
            f"{len(names) - 1}, as the metadata name {len(names)} classes: correct 'classes' or "
            "the labels"
        )
    named: NDArray[np.str_] = np.array(names, dtype=np.str_)[labels]
    return named
