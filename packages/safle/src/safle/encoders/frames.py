"""Frames of pandas, polars or pyarrow -> features: columns are matched by name.

None of the three is imported: a frame is what has names of columns, and gives a column by its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from safle.encoders.names import find_places
from safle.errors import InvalidInput, SafleWarning, TableError


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


def arrange_frame(features: Any, names: Sequence[str]) -> Any:
    """The columns ``names`` of a frame, in that order, as an array; what is no frame stays.

    `InvalidInput` lists the columns that are missing or not known. Where nobody knows names,
    columns are taken by position, with a warning.

    >>> import polars
    >>> frame = polars.DataFrame({"age": [61.0], "dose": [2.5]})
    >>> arrange_frame(frame, ("dose", "age")).tolist()
    [[2.5, 61.0]]
    """
    found = frame_names(features)
    if not found:
        return features
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


def _require(names: Sequence[str], found: Sequence[str]) -> None:
    try:
        find_places(names, found, where="the frame", advice="; drop them from the frame")
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
            f"column {name!r} holds something else than numbers; expected numbers: give levels of "
            "a category as their places in the schema, or read a file with "
            "open_table(path, schema=...)"
        ) from None
