"""Frames of pandas, polars or pyarrow -> features: columns are matched by name.

None of the three is imported to find out: a frame is what has names of columns, and gives a column
by its name. With a schema, text becomes levels and what is missing NaN, as in a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.cells import NotANumber, read_schema
from safle.encoders.features import find_places
from safle.errors import InvalidInput, SafleWarning, TableError

if TYPE_CHECKING:
    from polars import Series

    from safle.encoders.schema import Schema

WHERE = "the frame"
DROP = "; drop them from the frame"


def frame_names(features: Any) -> tuple[str, ...]:
    """Names of a frame's columns; empty for an array, or where columns are only numbered.

    >>> import polars
    >>> frame_names(polars.DataFrame({"age": [61.0], "dose": [2.5]}))
    ('age', 'dose')
    """
    # The `columns` of pyarrow are the columns themselves.
    found = getattr(features, "column_names", None)
    found = getattr(features, "columns", None) if found is None else found
    names = () if found is None or callable(found) else tuple(found)
    return names if all(isinstance(name, str) for name in names) else ()


def holds_text(features: Any) -> bool:
    """Whether a frame has a column of something else than numbers and truth values.

    >>> import polars
    >>> holds_text(polars.DataFrame({"sex": ["f", None]})), holds_text([[1.0]])
    (True, False)
    """
    import polars as pl

    kinds = [as_series(features[name]).dtype for name in frame_names(features)]
    return not all(kind.is_numeric() or kind == pl.Boolean for kind in kinds)


def arrange_frame(features: Any, names: Sequence[str], schema: Schema | None = None) -> Any:
    """The columns ``names`` of a frame, in that order, as an array; what is no frame stays.

    With a ``schema``, its columns, as it says. `InvalidInput` lists the columns that are missing or
    not known. Where nobody knows names, columns are taken by position, with a warning.

    >>> import polars
    >>> frame = polars.DataFrame({"age": [61.0], "dose": [2.5]})
    >>> arrange_frame(frame, ("dose", "age")).tolist()
    [[2.5, 61.0]]
    """
    found = frame_names(features)
    if not found:
        return features
    if schema is not None:
        return _by_schema(features, found, schema)
    if not names:
        warnings.warn(
            "the frame has names of columns, the encoder knows none: columns are taken by "
            "position; give the encoder their names (Encoder.with_names)",
            SafleWarning,
            stacklevel=4,
        )
    _require(names or found, found)
    return np.stack([_values(features[name], name) for name in names or found], axis=1)


def reorder_frame(features: Any, names: Sequence[str]) -> Any:
    """A frame of the same library with the columns ``names``; what is no frame stays."""
    found = frame_names(features)
    if not found or found == (*names,):
        return features
    _require(names, found)
    # pandas has no `select`, and the others take no list in brackets alike.
    return features.select([*names]) if hasattr(features, "select") else features[[*names]]


def absent_columns(schema: Schema, found: Sequence[str], *, where: str, **advice: str) -> list[str]:
    """Optional columns of a schema that are not ``found``; all others must be, and no more."""
    absent = [c.name for c in schema.columns if c.optional and c.name not in found]
    wanted = [name for name in schema.names if name not in absent]
    find_places(wanted, found, where=where, **advice)
    if absent:
        warnings.warn(
            f"{where}: no column {', '.join(absent)}: all values are taken for missing",
            SafleWarning,
            stacklevel=4,
        )
    return absent


def as_series(column: Any, name: str = "") -> Series:
    """A frame's column as polars has it: numbers, or whatever else it holds as text.

    >>> as_series(np.array([1.5, 2.5])).to_list()
    [1.5, 2.5]
    """
    return _as_series(column).alias(name)


def _as_series(column: Any) -> Series:
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


def _by_schema(features: Any, found: Sequence[str], schema: Schema) -> NDArray[np.float64]:
    """The columns that a schema declares; float64, (rows, feature_dim)."""
    others = {*schema.ignore, *schema.sparse, schema.label_column}
    known = [name for name in found if name not in others]
    try:
        absent = absent_columns(schema, known, where=WHERE, advice=DROP)
        columns = {name: as_series(features[name], name) for name in schema.names if name in known}
        return read_schema(columns.__getitem__, len(features), schema, absent)
    except NotANumber as error:
        raise InvalidInput(
            f"{WHERE}: row {error.row}, column {error.column!r} is no number; expected one"
            f"{error.advice}: correct or drop it"
        ) from None
    except TableError as error:
        raise InvalidInput(str(error)) from None


def _require(names: Sequence[str], found: Sequence[str]) -> None:
    try:
        find_places(names, found, where=WHERE, advice=DROP)
    except TableError as error:
        raise InvalidInput(str(error)) from None


def _values(column: Any, name: str) -> Any:
    """One column as numbers."""
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values
    try:
        # What is missing in a column of whole numbers makes it one of objects.
        return np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"column {name!r} holds something else than numbers; expected numbers: make the "
            "encoder of kind table with a schema (safle.tables.draft_schema), which knows text "
            "and gaps"
        ) from None
