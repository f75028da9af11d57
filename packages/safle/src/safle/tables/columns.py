"""Files whose columns have names (.csv, .parquet) -> features, labels, ids and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.cells import NotANumber, read_cells, read_series
from safle.encoders.features import MOST_WEIGHT
from safle.encoders.frames import absent_columns
from safle.encoders.schema import Schema
from safle.errors import TableError
from safle.tables.common import listed
from safle.tables.labels import parse_labels
from safle.tables.selection import Selection
from safle.tables.sheets import Sheet, read_sheet
from safle.tables.table import Rows, Table

if TYPE_CHECKING:
    from polars import Series


def read_column_table(path: Path, selection: Selection) -> Table:
    """Features and labels from the columns of a file."""
    selection.refuse(path, "split", "labels_key")
    sheet = read_sheet(path)
    if sheet.is_text:
        selection.refuse(path, "features_key")
    label = selection.label_in(path, sheet.names)
    if label is not None and sheet.names.count(label) > 1:
        found = sheet.names.count(label)
        raise TableError(f"{path}: {found} columns are called {label!r}; expected one")
    others = {label, *selection.passed_over(path, sheet.names)}
    places = [at for at, name in enumerate(sheet.names) if name not in others]
    names: tuple[str, ...] = ()
    features: Rows
    lists = _lists(sheet, selection.features_key) if selection.schema is None else None
    if lists is not None:
        features = SheetRows(len(sheet), lists.shape[1], lists.dtype, lambda: lists)
    elif selection.schema is not None:
        schema, names = selection.schema, selection.schema.names
        present = [sheet.names[at] for at in places]
        absent = absent_columns(schema, present, where=str(sheet.path))
        read = partial(_by_schema, sheet, schema, absent)
        features = SheetRows(len(sheet), len(names), np.dtype(np.float64), read)
    else:
        places, dtype = _numeric(sheet, places)
        read = partial(_as_numbers, sheet, places)
        features = SheetRows(len(sheet), len(places), dtype, read)
        names = _told_apart([sheet.names[at] for at in places])
    return Table(
        features,
        None if label is None else _labels(sheet, sheet.names.index(label)),
        names=names,
        ids=_ids(sheet, selection.id_column),
        weights=_weights(sheet, selection.weight_column),
    )


class SheetRows(Rows):
    """Columns of a sheet, turned into numbers when they are first read."""

    def __init__(
        self, rows: int, columns: int, dtype: np.dtype[Any], read: Callable[[], NDArray[Any]]
    ) -> None:
        super().__init__((rows, columns), dtype)
        self._read_all = read

    @cached_property
    def _whole(self) -> NDArray[Any]:
        return self._read_all()

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        return self._whole[start:stop]


def _by_schema(sheet: Sheet, schema: Schema, absent: list[str]) -> NDArray[np.float64]:
    """The columns that a schema declares, whatever their types; float64, (rows, feature_dim)."""
    matrix = np.full((len(sheet), schema.feature_dim), np.nan)
    for at, column in enumerate(schema.columns):
        if column.name in absent:
            continue
        place = sheet.names.index(column.name)
        held = sheet.texts(place) if sheet.is_text else sheet.columns[place]
        try:
            matrix[:, at] = read_series(held, column, schema.missing)
        except NotANumber as error:
            _refuse_cell(sheet, error.row, column.name, error.advice)
    return matrix


def _as_numbers(sheet: Sheet, places: list[int]) -> NDArray[Any]:
    """Plain columns of numbers, (rows, columns): float64 of texts, else of the columns' types."""
    return np.stack([_numbers(sheet, at) for at in places], axis=1)


def _numbers(sheet: Sheet, at: int) -> NDArray[Any]:
    column, name = sheet.columns[at], sheet.names[at]
    if not sheet.is_text:
        _check_whole(sheet, column, name)
        return column.to_numpy()
    try:
        return read_cells(sheet.texts(at))
    except NotANumber as error:
        _refuse_cell(sheet, error.row, name, error.advice)
    raise AssertionError("refused above")


def _numeric(sheet: Sheet, places: list[int]) -> tuple[list[int], np.dtype[Any]]:
    """The columns that are features, and what numbers they are."""
    import polars as pl

    if sheet.is_text:
        if not places:
            raise TableError(
                f"{sheet.path}: has no column but {listed(sheet.names)}; expected features too"
            )
        return places, np.dtype(np.float64)
    kinds = [sheet.columns[at].dtype for at in places]
    chosen = [
        at
        for at, kind in zip(places, kinds, strict=True)
        if kind.is_float() or kind.is_integer() or kind == pl.Boolean
    ]
    if not chosen:
        raise TableError(
            f"{sheet.path}: has {listed(sheet.names)}; expected numeric columns or a column "
            "'features' of lists: name another with --features-key KEY (features_key= in Python)"
        )
    types = [sheet.columns[at].clear().to_numpy().dtype for at in chosen]
    return chosen, np.result_type(*types)


def _lists(sheet: Sheet, wanted: str | None) -> NDArray[Any] | None:
    """The one column whose cells are lists of numbers, (rows, width), if there is one."""
    held = {
        name: column
        for name, column in zip(sheet.names, sheet.columns, strict=True)
        if column.dtype.is_nested() and getattr(column.dtype, "inner", None) is not None
    }
    if wanted is not None and wanted not in held:
        raise TableError(
            f"{sheet.path}: no column {wanted!r} of lists of numbers; it has "
            f"{listed(held) or 'none, only ' + listed(sheet.names)}"
        )
    name = wanted or "features"
    return _from_lists(sheet, held[name], name) if name in held else None


def _from_lists(sheet: Sheet, column: Series, name: str) -> NDArray[Any]:
    import polars as pl

    width = getattr(column.dtype, "size", None)
    if width is None and (not len(column) or column[0] is None):
        raise TableError(
            f"{sheet.path}: column {name!r} has no first row to tell the feature count by"
        )
    _check_whole(sheet, column, name)
    lists = column if width is None else column.arr.to_list()
    lengths = lists.list.len().to_numpy()
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        sheet.refuse(
            row,
            f", column {name!r} has {lengths[row]} values, the first row {width}; expected as many "
            "in every row",
        )
    values = lists.explode() if len(lists) else pl.Series(dtype=lists.dtype.inner)  # type: ignore[attr-defined]
    missing = values.is_null().to_numpy()
    if missing.any():
        _refuse_gap(sheet, int(np.argmax(missing)) // width, name)
    return values.to_numpy().reshape(len(lists), width)


def _check_whole(sheet: Sheet, column: Series, name: str) -> None:
    if column.has_nulls():
        _refuse_gap(sheet, int(np.argmax(column.is_null().to_numpy())), name)


def _refuse_gap(sheet: Sheet, row: int, name: str) -> None:
    sheet.refuse(row, f", column {name!r} has no value; expected a number: fill it or drop the row")


def _refuse_cell(sheet: Sheet, row: int, name: str, advice: str) -> None:
    sheet.refuse(
        row,
        f", column {name!r} is no number; expected one{advice}: correct or drop it, or name the "
        "column of labels with --label-column NAME (label_column= in Python), or leave the column "
        "out with --ignore NAME (ignore=)",
    )


def _labels(sheet: Sheet, at: int) -> NDArray[Any]:
    import polars as pl

    column = sheet.columns[at]
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if not sheet.is_text and column.dtype != pl.String:
        if column.has_nulls():
            _refuse_label(sheet, int(np.argmax(column.is_null().to_numpy())))
        return column.to_numpy()
    # Spaces around it would make a class of its own.
    texts = column.fill_null("").str.strip_chars()
    empty = (texts == "").to_numpy()
    if empty.any():
        _refuse_label(sheet, int(np.argmax(empty)))
    if sheet.is_text:
        return parse_labels(texts.to_list(), where=str(sheet.path))
    return np.array(texts.to_list(), np.str_)


def _refuse_label(sheet: Sheet, row: int) -> None:
    sheet.refuse(row, " has no label; expected one per row")


def _ids(sheet: Sheet, name: str | None) -> NDArray[Any] | None:
    if name is None:
        return None
    texts = sheet.columns[sheet.names.index(name)].cast(str).fill_null("")
    return np.array(texts.str.strip_chars().to_list(), np.str_)


def _weights(sheet: Sheet, name: str | None) -> NDArray[np.int64] | None:
    if name is None:
        return None
    try:
        values = read_cells(sheet.texts(sheet.names.index(name)))
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


def _told_apart(found: list[str]) -> tuple[str, ...]:
    """Names that tell columns apart; those of a plain matrix, 0, 1, 2, ..., are none."""
    plain = found == [str(at) for at in range(len(found))]
    return () if plain or len({*found}) < len(found) else (*found,)
