"""A sheet of columns with names -> features, labels, ids and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from safle.encoders.cells import NotANumber, as_texts, read_cells, read_schema
from safle.encoders.features import MOST_WEIGHT
from safle.encoders.frames import absent_columns
from safle.encoders.schema import Schema
from safle.errors import TableError
from safle.tables.labels import parse_labels
from safle.tables.selection import Selection, listed
from safle.tables.sheets import Sheet
from safle.tables.table import Rows, Table

if TYPE_CHECKING:
    from polars import Series


def read_column_table(sheet: Sheet, selection: Selection) -> Table:
    """Features and labels from the columns of a sheet."""
    label = selection.label_in(sheet.where, sheet.names)
    others = {label, *selection.passed_over(sheet.where, sheet.names)}
    names = [name for name in sheet.names if name not in others]
    lists = _lists(sheet, selection.features_key) if selection.schema is None else None
    if lists is not None:
        features: NDArray[Any] | Rows = lists
        names = []
    elif selection.schema is not None:
        absent = absent_columns(selection.schema, names, where=sheet.where)
        features = _rows_by_schema(sheet, selection.schema, absent)
        names = [*selection.schema.names]
    else:
        names = _numeric(sheet, names)
        features = _rows_of_numbers(sheet, names)
        # Those of a plain matrix, 0, 1, 2, ..., are none.
        names = [] if names == [str(at) for at in range(len(names))] else names
    return Table(
        features,
        None if label is None else _labels(sheet, label),
        names=tuple(names),
        ids=_ids(sheet, selection.id_column),
        weights=_weights(sheet, selection.weight_column),
    )


def _lazy(
    shape: tuple[int, int], dtype: np.dtype[Any], read_all: Callable[[], NDArray[Any]]
) -> Rows:
    """Columns that are turned into numbers when they are first read."""
    whole = cache(read_all)
    return Rows(shape, dtype, lambda start, stop: whole()[start:stop])


def _rows_by_schema(sheet: Sheet, schema: Schema, absent: list[str]) -> Rows:
    def read() -> NDArray[np.float64]:
        held = sheet.texts if sheet.is_text else sheet.frame.get_column
        with _refusing(sheet):
            return read_schema(held, len(sheet), schema, absent)

    return _lazy((len(sheet), schema.feature_dim), np.dtype(np.float64), read)


def _rows_of_numbers(sheet: Sheet, names: list[str]) -> Rows:
    """Plain columns of numbers: float64 of texts, else of the columns' types."""

    def read() -> NDArray[Any]:
        return np.stack([_numbers(sheet, name) for name in names], axis=1)

    types = [sheet.frame[name].clear().to_numpy().dtype for name in names]
    dtype = np.dtype(np.float64) if sheet.is_text else np.result_type(*types)
    return _lazy((len(sheet), len(names)), dtype, read)


def _numbers(sheet: Sheet, name: str) -> NDArray[Any]:
    if not sheet.is_text:
        _check_whole(sheet, sheet.frame[name])
        return sheet.frame[name].to_numpy()
    with _refusing(sheet, name):
        return read_cells(sheet.texts(name))


@contextmanager
def _refusing(sheet: Sheet, name: str = "") -> Iterator[None]:
    """`TableError` for a cell that is no number."""
    try:
        yield
    except NotANumber as error:
        sheet.refuse(
            error.row,
            f", column {name or error.column!r} is no number; expected one{error.advice}: correct "
            "or drop it, or name the column of labels with --label-column NAME (label_column= in "
            "Python), or leave the column out with --ignore NAME (ignore=)",
        )


def _numeric(sheet: Sheet, names: list[str]) -> list[str]:
    """The columns that are features: all of texts, else those of numbers."""
    import polars as pl

    if sheet.is_text:
        if not names:
            raise TableError(
                f"{sheet.where}: has no column but {listed(sheet.names)}; expected features too"
            )
        return names
    kinds = {name: sheet.frame[name].dtype for name in names}
    chosen = [
        name
        for name, kind in kinds.items()
        if kind.is_float() or kind.is_integer() or kind == pl.Boolean
    ]
    if not chosen:
        raise TableError(
            f"{sheet.where}: has {listed(sheet.names)}; expected numeric columns or a column "
            "'features' of lists: name another with --features-key KEY (features_key= in Python)"
        )
    return chosen


def _lists(sheet: Sheet, wanted: str | None) -> NDArray[Any] | None:
    """The one column whose cells are lists of numbers, (rows, width), if there is one."""
    held = [
        column.name
        for column in sheet.frame.get_columns()
        if column.dtype.is_nested() and getattr(column.dtype, "inner", None) is not None
    ]
    if wanted is not None and wanted not in held:
        raise TableError(
            f"{sheet.where}: no column {wanted!r} of lists of numbers; it has "
            f"{listed(held) or 'none, only ' + listed(sheet.names)}"
        )
    name = wanted or "features"
    return _from_lists(sheet, sheet.frame[name]) if name in held else None


def _from_lists(sheet: Sheet, column: Series) -> NDArray[Any]:
    import polars as pl

    width = getattr(column.dtype, "size", None)
    if width is None and (not len(column) or column[0] is None):
        raise TableError(
            f"{sheet.where}: column {column.name!r} has no first row to tell the feature count by"
        )
    _check_whole(sheet, column)
    lists = column if width is None else column.arr.to_list()
    lengths = lists.list.len().to_numpy()
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        sheet.refuse(
            row,
            f", column {column.name!r} has {lengths[row]} values, the first row {width}; expected "
            "as many in every row",
        )
    values = lists.explode() if len(lists) else pl.Series(dtype=lists.dtype.inner)  # type: ignore[attr-defined]
    missing = values.is_null().to_numpy()
    if missing.any():
        _refuse_gap(sheet, int(np.argmax(missing)) // width, column.name)
    return values.to_numpy().reshape(len(lists), width)


def _check_whole(sheet: Sheet, column: Series) -> None:
    if column.has_nulls():
        _refuse_gap(sheet, _first(column.is_null()), column.name)


def _first(found: Series) -> int:
    return int(np.argmax(found.to_numpy()))


def _refuse_gap(sheet: Sheet, row: int, name: str) -> NoReturn:
    sheet.refuse(row, f", column {name!r} has no value; expected a number: fill it or drop the row")


def _labels(sheet: Sheet, name: str) -> NDArray[Any]:
    import polars as pl

    column = sheet.frame[name]
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    is_text = column.dtype == pl.String
    # Spaces around it would make a class of its own.
    held = column.fill_null("").str.strip_chars() if is_text else column
    missing = held == "" if is_text else held.is_null()
    if missing.any():
        sheet.refuse(_first(missing), " has no label; expected one per row")
    if sheet.is_text:
        return parse_labels(held.to_list(), where=sheet.where)
    return np.array(held.to_list(), np.str_) if is_text else held.to_numpy()


def _ids(sheet: Sheet, name: str | None) -> NDArray[Any] | None:
    if name is None:
        return None
    return np.array(as_texts(sheet.frame[name]).str.strip_chars().to_list(), np.str_)


def _weights(sheet: Sheet, name: str | None) -> NDArray[np.int64] | None:
    if name is None:
        return None
    try:
        values = read_cells(sheet.texts(name))
        wrong = ~((values >= 0) & (values <= MOST_WEIGHT) & (values == np.floor(values)))
        row = int(np.argmax(wrong)) if wrong.any() else None
    except NotANumber as error:
        row = error.row
    if row is not None:
        sheet.refuse(
            row,
            f" has a weight that is no whole number from 0 to {MOST_WEIGHT:,}; expected one: the "
            "sample is counted so often",
        )
    return values.astype(np.int64)
