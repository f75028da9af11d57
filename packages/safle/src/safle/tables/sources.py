"""Columns with names -> features, from a file or from a frame of pandas, polars or pyarrow.

A frame is first converted to polars, and then read like a file. With a schema, text becomes
levels, and missing values become NaN. A frame is recognised by the names of its columns, so that no
frame library needs to be imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from safle.basics.texts import name_some
from safle.errors import SafleWarning, TableError
from safle.tables.cells import (
    as_texts,
    find_gaps,
    is_rounded,
    numeric_marks,
    read_cells,
    replace_commas,
)
from safle.tables.checks import IGNORE_ADVICE, MAX_NAMED, find_places, match_columns

if TYPE_CHECKING:
    from polars import DataFrame, Series

    from safle.tables.schema import Column, Schema

FRAME_ADVICE = (
    "correct or drop it, or take an encoder of kind table with a schema (safle.tables."
    "draft_schema), which accepts text and gaps"
)
SCHEMA_ADVICE = (
    "correct or empty it, or, if its text means a missing value, add the text to 'missing' in the "
    "schema and make the encoder again"
)
ROUNDED = (
    "of more digits than the file's single precision holds (float32): they were rounded when it "
    "was written. A copy in double precision or as text may have other counts; give the file that "
    "was not rounded, if there is one"
)
DROP_ADVICE = "; drop them from the frame"


@dataclass(frozen=True)
class ColumnSource:
    """Columns of equal length.

    Attributes
    ----------
    where : the name of the file or frame, for errors
    frame : its columns; texts, if it is a CSV file
    is_text : whether it is a CSV file, whose rows are lines
    line_of : row -> its line in the file
    decimal_comma : whether fractions have a comma
    advice : for errors, what to do about a cell that is not a number, without a schema
    """

    where: str
    frame: DataFrame
    is_text: bool = False
    line_of: Callable[[int], int] = int
    decimal_comma: bool = False
    advice: str = (
        "correct or drop it, or name the column of labels with --label-column NAME (label_column= "
        "in Python), or leave the column out with --ignore NAME (ignore=)"
    )

    @property
    def names(self) -> list[str]:
        return self.frame.columns

    def __len__(self) -> int:
        return self.frame.height

    def column(self, name: str) -> Series:
        """A column, its decimal commas replaced by points."""
        return replace_commas(self.frame[name]) if self.decimal_comma else self.frame[name]

    def texts(self, name: str) -> Series:
        """The cells of a column as text; missing ones are empty."""
        return as_texts(self.column(name))

    def refuse(self, row: int, problem: str) -> NoReturn:
        """Raise `TableError` about a row."""
        line = self.line_of(row)
        word = "line" if self.is_text else "row"
        raise TableError(f"{self.where}: {word} {line}{problem}", line=line)

    def numbers(self, name: str) -> NDArray[Any]:
        """The numbers of a column, of its own type; NaN where a frame has no value."""
        dtype = self.frame[name].dtype
        if dtype.is_float() or dtype.is_integer():
            return self.frame[name].to_numpy()
        return self._read(name)

    def read_by_schema(
        self, schema: Schema, found: Sequence[str], advice: str = IGNORE_ADVICE
    ) -> NDArray[np.float64]:
        """The columns that a schema declares, float64, (rows, feature_dim); NaN for gaps.

        `TableError` unless ``found`` are the columns of the schema; some are optional.
        """
        absent = [c.name for c in schema.columns if c.optional and c.name not in found]
        expected = [name for name in schema.names if name not in absent]
        find_places(expected, found, where=self.where, advice=advice)
        if absent:
            self._warn(f"no column {', '.join(absent)}: all values are taken for missing")
        if rounded := [name for name in expected if is_rounded(self.frame[name])]:
            self._warn(f"{name_some(rounded)} {ROUNDED}")
        matrix = np.full((len(self), schema.feature_dim), np.nan)
        otherwise: list[tuple[int, str]] = []
        for place, column in enumerate(schema.columns):
            if column.name in absent:
                continue
            marks = (*schema.missing, *column.missing)
            matrix[:, place] = self._read(column.name, column, marks)
            if not column.is_category and (count := self._count_otherwise(column.name, marks)):
                otherwise.append((count, column.name))
        otherwise = sorted(otherwise, reverse=True)
        if otherwise:
            cells = [f"{count:,} cells of {name!r}" for count, name in otherwise[:MAX_NAMED]]
            if more := len(otherwise) - len(cells):
                cells.append(f"cells of {more:,} more columns")
            self._warn(
                f"{' and '.join(cells)} hold the number of a missing mark in another spelling "
                "(-9.0 or -9,0 for -9): they are taken for missing"
            )
        return matrix

    def _count_otherwise(self, name: str, missing: Sequence[str]) -> int:
        """How many cells hold the number of a missing mark in another spelling."""
        if self.frame[name].dtype.is_numeric() or not (numbers := numeric_marks(missing)):
            return 0
        # As it is in the file: a decimal comma is not a point.
        written = as_texts(self.frame[name]).str.strip_chars()
        read = self.texts(name).str.strip_chars().cast(float, strict=False)
        return int((read.is_in(numbers) & ~find_gaps(written, missing)).sum())

    def _warn(self, text: str) -> None:
        warnings.warn(f"{self.where}: {text}", SafleWarning, stacklevel=5)

    def _read(
        self, name: str, column: Column | None = None, missing: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        advice = self.advice if column is None else SCHEMA_ADVICE

        def refuse(row: int, found: str) -> NoReturn:
            self.refuse(row, f", column {name!r} is not a number; expected one{found}: {advice}")

        return read_cells(self.column(name), column, missing, refuse=refuse)


def frame_names(features: Any) -> tuple[str, ...]:
    """Names of a frame's columns; empty for an array, or where columns are only numbered."""
    # The `columns` of pyarrow are the columns themselves.
    found = getattr(features, "column_names", None)
    found = getattr(features, "columns", None) if found is None else found
    names = () if found is None or callable(found) else tuple(found)
    return names if all(isinstance(name, str) for name in names) else ()


def from_frame(features: Any) -> ColumnSource:
    """The columns of a pandas, polars or pyarrow frame."""
    import polars as pl

    names = frame_names(features)
    if len({*names}) < len(names):
        raise TableError("the frame: two columns have one name; expected each name once")
    columns = [_as_series(features[name]).alias(name) for name in names]
    return ColumnSource("the frame", pl.DataFrame(columns), advice=FRAME_ADVICE)


def holds_text(features: Any) -> bool:
    """Whether a frame has a column of anything but numbers and truth values."""
    if not frame_names(features):
        return False
    dtypes = from_frame(features).frame.dtypes
    return not all(dtype.is_numeric() or str(dtype) == "Boolean" for dtype in dtypes)


def arrange_frame(features: Any, names: Sequence[str], schema: Schema | None = None) -> Any:
    """The columns ``names`` of a frame, in that order, as an array; an array as it is.

    With a ``schema``, they are its columns, read as it says. `TableError` lists the columns that
    are missing or unknown. Without ``names``, columns are matched by position, with a warning.
    """
    if not frame_names(features):
        return features
    opened = from_frame(features)
    if schema is not None:
        others = {*schema.ignore, *schema.sparse, schema.label_column}
        found = [name for name in opened.names if name not in others]
        return opened.read_by_schema(schema, found, DROP_ADVICE)
    match_columns(names, opened.names, where=opened.where, advice=DROP_ADVICE)
    return np.stack([opened.numbers(name) for name in names or opened.names], axis=1)


def reorder_frame(features: Any, names: Sequence[str]) -> Any:
    """A polars frame with the columns ``names``; an array as it is."""
    if not frame_names(features):
        return features
    opened = from_frame(features)
    find_places(names, opened.names, where=opened.where, advice=DROP_ADVICE)
    return opened.frame.select(names)


def _as_series(column: Any) -> Series:
    """A frame's column as a polars series; objects that are not numbers become text."""
    import polars as pl

    if isinstance(column, pl.Series):
        return column
    if hasattr(column, "to_pylist"):
        return pl.Series(pl.from_arrow(column))
    values = np.asarray(column)
    if values.dtype.kind != "O":
        return pl.Series(values)
    gaps = np.asarray(column.isna())
    cells = [None if gap else value for value, gap in zip(values, gaps, strict=True)]
    if all(_is_number(cell) for cell in cells if cell is not None):
        return pl.Series(cells, dtype=pl.Float64, strict=False)
    return pl.Series([None if cell is None else str(cell) for cell in cells], dtype=pl.String)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Real) and not isinstance(cell, bool | np.bool_)
