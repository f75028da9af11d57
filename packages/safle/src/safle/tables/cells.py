"""Cells of text -> feature values, as a schema says; what else they look like, for errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from safle.encoders.features import MOST_WEIGHT
from safle.encoders.schema import MISSING, Column, Schema
from safle.errors import TableError

Reader = Callable[[str], float]
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*([^\W\d_%][^\d]*|%|°\w*)")
FRACTION = re.compile(r"[+-]?\d+([.,])\d+(?:[eE][+-]?\d+)?(?:\s*[^\W\d_]\D*)?")
"""A number with a fraction, and maybe a unit; the mark before the fraction."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})")


def cell_readers(schema: Schema) -> list[Reader]:
    """For each column, the function from a cell to its feature value; NaN is missing.

    >>> from safle.encoders.schema import Column, Schema
    >>> schema = Schema((Column("sex", levels=("f", "m")), Column("size", 0, 90, "mm")))
    >>> sex, size = cell_readers(schema)
    >>> [*map(sex, ["m", " f", "d", "NA"])], [*map(size, ["7 mm", "8", "?"])]
    ([1.0, 0.0, 2.0, nan], [7.0, 8.0, nan])
    """
    missing = marks(schema.missing)
    return [
        _level_reader(c, missing) if c.is_category else _number_reader(c, missing)
        for c in schema.columns
    ]


def marks(texts: Iterable[str]) -> frozenset[str]:
    """Texts that stand for no value, to be compared with `normal` cells."""
    return frozenset(map(normal, texts))


def normal(text: str) -> str:
    """A cell without the spaces around it, in one case."""
    return text.strip().casefold()


def _level_reader(column: Column, missing: Set[str]) -> Reader:
    places = {level: float(place) for place, level in enumerate(column.levels)}

    def read(text: str) -> float:
        found = places.get(text.strip())
        if found is not None:
            return found
        return math.nan if normal(text) in missing else float(len(places))

    return read


def _number_reader(column: Column, missing: Set[str]) -> Reader:
    def read(text: str) -> float:
        if normal(text) in missing:
            return math.nan
        try:
            return float(text)
        except ValueError:
            number, unit = split_unit(text)
            if not unit or unit != column.unit:
                raise
            return number

    return read


def read_weight(text: str, path: object, line: int) -> int:
    """How often the sample of this line is counted; `TableError` for what is no whole number."""
    try:
        weight = float(text)
        if weight.is_integer() and 0 <= weight <= MOST_WEIGHT:
            return int(weight)
    except ValueError:
        pass  # Said below.
    raise TableError(
        f"{path}: line {line} has weight {text.strip()[:40]!r}; expected a whole number from 0 to "
        f"{MOST_WEIGHT:,}: the sample is counted so often",
        line=line,
    )


def read_cells(
    read: Reader, texts: Sequence[str], lines: Sequence[int], *, name: str, where: object
) -> NDArray[np.float64]:
    """Feature values of the cells of column ``name``, each with its line; `TableError` says which.

    float64, (cells,)
    """
    try:
        return np.fromiter(map(read, texts), np.float64, len(texts))
    except ValueError:
        wrong = next(at for at, text in enumerate(texts) if not _is_read(read, text))
        raise TableError(
            f"{where}: line {lines[wrong]}, column {name!r} is {texts[wrong]!r}; expected a "
            f"number{advise(texts[wrong])}: correct or drop it, or name the column of labels with "
            "--label-column NAME (label_column= in Python), or leave the column out with "
            "--ignore NAME (ignore=)",
            line=lines[wrong],
        ) from None


def split_unit(text: str) -> tuple[float, str]:
    """A number and the unit behind it; an empty unit if ``text`` is no such thing.

    >>> split_unit("5.1 mmol/l"), split_unit("abc")
    ((5.1, 'mmol/l'), (0.0, ''))
    """
    found = _WITH_UNIT.fullmatch(text.strip())
    return (float(found[1]), found[2].strip()) if found else (0.0, "")


def with_point(text: str) -> str:
    """A number with a decimal comma as one with a point; any other text as it is."""
    found = FRACTION.fullmatch(text.strip())
    return text.replace(",", ".", 1) if found and found[1] == "," else text


def is_date(text: str) -> bool:
    """Whether a cell looks like a day, with or without a time."""
    return _DATE.fullmatch(text.strip()) is not None


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
    if with_point(cell) != cell:
        return " (it looks like a decimal comma: write a point, or separate cells by semicolons)"
    if unit := split_unit(cell)[1]:
        return f" (it has the unit {unit!r}: take it out, or declare it with 'safle schema')"
    return ""


def is_number(text: str) -> bool:
    """Whether Python reads it as a number."""
    return _is_read(float, text)


def _is_read(read: Reader, text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True
