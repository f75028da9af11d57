"""Columns with names -> features, from a file or from a frame of pandas, polars or pyarrow.

A frame becomes one of polars at the door, and is then read as a file is. With a schema, text
becomes levels and what is missing NaN. No library of frames is imported to find out what a frame
is: it has names of columns, and gives a column by its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from safle.encoders.cells import NotANumber, as_texts, read_series, with_points
from safle.encoders.features import find_places, match_columns
from safle.errors import SafleWarning, TableError

if TYPE_CHECKING:
    from polars import DataFrame, Series

    from safle.encoders.schema import Column, Schema

IN_FRAME = (
    "correct or drop it, or take an encoder of kind table with a schema (safle.tables."
    "draft_schema), which knows text and gaps"
)
DROP = "; drop them from the frame"


@dataclass(frozen=True)
class Sheet:
    """Columns of equal length.

    Attributes
    ----------
    where : what errors call it
    frame : its columns; texts, if it is a CSV file
    is_text : whether it is a CSV file, whose rows are lines
    line_of : where a row stands in the file
    decimal_comma : whether fractions have a comma
    advice : what to do about a cell that is no number
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
        """A column, in which fractions have a point."""
        return with_points(self.frame[name]) if self.decimal_comma else self.frame[name]

    def texts(self, name: str) -> Series:
        """The cells of a column as text; empty where there is no value."""
        return as_texts(self.column(name))

    def refuse(self, row: int, problem: str) -> NoReturn:
        """`TableError` about what stands in a row."""
        line = self.line_of(row)
        kind = "line" if self.is_text else "row"
        raise TableError(f"{self.where}: {kind} {line}{problem}", line=line)

    def numbers(self, name: str) -> NDArray[Any]:
        """The numbers of a column, of its own type; NaN where a frame has no value."""
        kind = self.frame[name].dtype
        if kind.is_float() or kind.is_integer():
            return self.frame[name].to_numpy()
        return self._read(name)

    def by_schema(self, schema: Schema) -> NDArray[np.float64]:
        """The columns that a schema declares, float64, (rows, feature_dim); NaN for gaps."""
        matrix = np.full((len(self), schema.feature_dim), np.nan)
        for at, column in enumerate(schema.columns):
            if column.name in self.names:
                matrix[:, at] = self._read(column.name, column, schema.missing)
        return matrix

    def _read(
        self, name: str, column: Column | None = None, missing: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        try:
            return read_series(self.column(name), column, missing)
        except NotANumber as error:
            self.refuse(
                error.row,
                f", column {name!r} is no number; expected one{error.advice}: {self.advice}",
            )

    def require(self, schema: Schema, found: Sequence[str], **advice: str) -> None:
        """`TableError` unless ``found`` are the columns of a schema; optional ones may lack."""
        absent = [c.name for c in schema.columns if c.optional and c.name not in found]
        wanted = [name for name in schema.names if name not in absent]
        find_places(wanted, found, where=self.where, **advice)
        if absent:
            warnings.warn(
                f"{self.where}: no column {', '.join(absent)}: all values are taken for missing",
                SafleWarning,
                stacklevel=4,
            )


def frame_names(features: Any) -> tuple[str, ...]:
    """Names of a frame's columns; empty for an array, or where columns are only numbered."""
    # The `columns` of pyarrow are the columns themselves.
    found = getattr(features, "column_names", None)
    found = getattr(features, "columns", None) if found is None else found
    names = () if found is None or callable(found) else tuple(found)
    return names if all(isinstance(name, str) for name in names) else ()


def frame_sheet(features: Any) -> Sheet:
    """The columns of a pandas, polars or pyarrow frame."""
    import polars as pl

    names = frame_names(features)
    if len({*names}) < len(names):
        raise TableError("the frame: columns that stand there twice; expected each name once")
    columns = [_as_series(features[name]).alias(name) for name in names]
    return Sheet("the frame", pl.DataFrame(columns), advice=IN_FRAME)


def holds_text(features: Any) -> bool:
    """Whether a frame has a column of something else than numbers and truth values."""
    if not frame_names(features):
        return False
    kinds = frame_sheet(features).frame.dtypes
    return not all(kind.is_numeric() or str(kind) == "Boolean" for kind in kinds)


def arrange_frame(features: Any, names: Sequence[str], schema: Schema | None = None) -> Any:
    """The columns ``names`` of a frame, in that order, as an array; what is no frame stays.

    With a ``schema``, its columns, as it says. `TableError` lists the columns that are missing or
    not known. Where the encoder has no names, columns are matched by position, with a warning.
    """
    if not frame_names(features):
        return features
    sheet = frame_sheet(features)
    if schema is not None:
        others = {*schema.ignore, *schema.sparse, schema.label_column}
        sheet.require(schema, [name for name in sheet.names if name not in others], advice=DROP)
        return sheet.by_schema(schema)
    match_columns(names, sheet.names, where=sheet.where, advice=DROP)
    return np.stack([sheet.numbers(name) for name in names or sheet.names], axis=1)


def reorder_frame(features: Any, names: Sequence[str]) -> Any:
    """A polars frame with the columns ``names``; what is no frame stays."""
    if not frame_names(features):
        return features
    sheet = frame_sheet(features)
    find_places(names, sheet.names, where=sheet.where, advice=DROP)
    return sheet.frame.select(names)


def _as_series(column: Any) -> Series:
    """A frame's column as polars has it: numbers, or whatever else it holds as text."""
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
