"""Cells of a column -> feature values, as a schema says; what else they look like, for errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from safle.errors import TableError

if TYPE_CHECKING:
    from polars import Series

    from safle.encoders.schema import Column, Schema

MISSING = ("", "NA", "N/A", "NaN", "null", "?")
"""What stands for a value that is missing, in any case, where a schema does not say otherwise."""
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*([^\W\d_%][^\d]*|%|°\w*)")
_AFTER = r"(\d+(?:[eE][+-]?\d+)?(?:\s*[^\W\d_]\D*)?\s*)$"
COMMA, POINT = rf"^(\s*[+-]?\d+),{_AFTER}", rf"^(\s*[+-]?\d+)\.{_AFTER}"
"""A number with a fraction, and maybe a unit, by the mark before the fraction."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})")


class NotANumber(ValueError):
    """A cell that is no number; ``row`` says which, ``advice`` what it may be."""

    def __init__(self, row: int, advice: str) -> None:
        super().__init__(advice)
        self.row, self.advice = row, advice
        self.column = ""


def read_schema(
    held: Callable[[str], Series], rows: int, schema: Schema, absent: Collection[str]
) -> NDArray[np.float64]:
    """The columns that a schema declares, float64, (rows, feature_dim); NaN where ``absent``.

    ``held`` gives a column by its name. `NotANumber` for the first cell that is none.
    """
    matrix = np.full((rows, schema.feature_dim), np.nan)
    for at, column in enumerate(schema.columns):
        if column.name in absent:
            continue
        try:
            matrix[:, at] = read_series(held(column.name), column, schema.missing)
        except NotANumber as error:
            error.column = column.name
            raise
    return matrix


def as_texts(column: Series) -> Series:
    """The cells of a column as text; empty where there is no value.

    A whole number is written without a point: with gaps, pandas' integers are floats.
    """
    import polars as pl

    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise TableError(
            f"column {column.name!r} holds {column.dtype}; expected numbers or text: leave it out"
        )
    if column.dtype == pl.Boolean:
        column = column.replace_strict([False, True], ["False", "True"], return_dtype=pl.String)
    texts = column.cast(pl.String).fill_null("")
    return texts.str.strip_suffix(".0") if column.dtype.is_float() else texts


def read_series(held: Series, column: Column, missing: Iterable[str]) -> NDArray[np.float64]:
    """As `read_cells`, of a column of any type: numbers need not be text in between.

    >>> import polars
    >>> from safle import Column
    >>> stage = Column("stage", levels=("1", "2"))
    >>> read_series(polars.Series([2.0, None, 3.0]), stage, ()).tolist()
    [1.0, nan, 2.0]
    """
    if not held.dtype.is_numeric():
        return read_cells(as_texts(held), column, missing)
    values = np.array(held.cast(float).to_numpy(), np.float64)
    if not column.is_category:
        return values
    # Whole numbers with gaps are floats in most frames: "2" is 2.0.
    places = np.where(np.isnan(values), np.nan, float(len(column.levels)))
    for place, level in enumerate(column.levels):
        if is_number(level):
            places[values == float(level)] = place
    return places


def read_cells(
    texts: Series, column: Column | None = None, missing: Iterable[str] = ()
) -> NDArray[np.float64]:
    """Feature values of a column's cells, float64, (cells,); NaN is missing.

    `NotANumber` for the first cell that is none. Numbers are those of Python's ``float``.

    >>> import polars
    >>> from safle import Column
    >>> size = Column("size", 0, 90, "mm")
    >>> read_cells(polars.Series(["7 mm", " 8", "?"]), size, ["?"]).tolist()
    [7.0, 8.0, nan]
    >>> sex = Column("sex", levels=("f", "m"))
    >>> read_cells(polars.Series(["m", " f", "d", "NA"]), sex, ["NA"]).tolist()
    [1.0, 0.0, 2.0, nan]
    """
    stripped = texts.str.strip_chars()
    gaps = stripped.str.to_lowercase().is_in([*marks(missing)]).to_numpy()
    if column is not None and column.is_category:
        values = _levels(stripped, column)
        values[np.isnan(values) & ~gaps] = len(column.levels)
        return values
    return _numbers(stripped, gaps, "" if column is None else column.unit)


def _levels(stripped: Series, column: Column) -> NDArray[np.float64]:
    """The place of each cell's level; NaN for any other text."""
    import polars as pl

    places = [*map(float, range(len(column.levels)))]
    levels = pl.Series([*column.levels], dtype=pl.String)
    found = stripped.replace_strict(levels, places, default=None, return_dtype=pl.Float64)
    return np.array(found.to_numpy(), np.float64)


def _numbers(stripped: Series, gaps: NDArray[np.bool_], unit: str) -> NDArray[np.float64]:
    import polars as pl

    cast = stripped.cast(pl.Float64, strict=False)
    values = np.array(cast.to_numpy(), np.float64)
    values[gaps] = math.nan
    # Few cells are left: numbers with their unit, spellings that Python alone reads, or none.
    left = np.flatnonzero(cast.is_null().to_numpy() & ~gaps)
    known: dict[str, float] = {}
    for row in left.tolist():
        text = stripped[row]
        if text not in known:
            known[text] = _read_number(text, unit, row)
        values[row] = known[text]
    return values


def _read_number(text: str, unit: str, row: int) -> float:
    try:
        return float(text)
    except ValueError:
        number, found = split_unit(text)
        if not found or found != unit:
            raise NotANumber(row, advise(text)) from None
        return number


def marks(texts: Iterable[str]) -> frozenset[str]:
    """Texts that stand for no value, to be compared with `normal` cells."""
    return frozenset(map(normal, texts))


def normal(text: str) -> str:
    """A cell without the spaces around it, in lower case."""
    return text.strip().lower()


def split_unit(text: str) -> tuple[float, str]:
    """A number and the unit behind it; an empty unit if ``text`` is no such thing.

    >>> split_unit("5.1 mmol/l"), split_unit("abc")
    ((5.1, 'mmol/l'), (0.0, ''))
    """
    found = _WITH_UNIT.fullmatch(text.strip())
    return (float(found[1]), found[2].strip()) if found else (0.0, "")


def with_points(texts: Series) -> Series:
    """Numbers with a decimal comma as ones with a point; any other text as it is."""
    return texts.str.replace(COMMA, "${1}.${2}")


def is_date(text: str) -> bool:
    """Whether a cell looks like a day, with or without a time."""
    return _DATE.fullmatch(text.strip()) is not None


def is_number(text: str) -> bool:
    """Whether Python reads it as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def advise(text: str) -> str:
    """What a cell that is no number may be, and what to do about it; may be empty."""
    cell = text.strip()
    if normal(cell) in marks(MISSING):
        return (
            " (it says that the value is missing: fill it, drop the row, or declare the table with "
            "'safle schema', which knows gaps)"
        )
    if is_date(cell):
        return " (it looks like a date: turn it into an age or a number of days, or leave it out)"
    if re.match(COMMA, cell):
        return " (it looks like a decimal comma: write a point, or separate cells by semicolons)"
    if split_unit(cell)[1]:
        return " (it has a unit: take it out, or declare it with 'safle schema')"
    return ""
