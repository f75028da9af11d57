"""Cells of a column -> feature values, as a schema says; advice about other cells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from safle.errors import TableError

if TYPE_CHECKING:
    from polars import Series

    from safle.tables.schema import Column

Refuse = Callable[[int, str], NoReturn]
"""Raises an error about a row whose cell is not a number; the text says what it may be."""
MISSING = ("", "NA", "N/A", "NaN", "null", "?")
"""Texts that mean a missing value, in any case, unless a schema declares others."""
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*([^\W\d_%][^\d]*|%|°\w*)")
_AFTER = r"(\d+(?:[eE][+-]?\d+)?(?:\s*[^\W\d_]\D*)?\s*)$"
DECIMAL_COMMA = rf"^(\s*[+-]?\d+),{_AFTER}"
DECIMAL_POINT = rf"^(\s*[+-]?\d+)\.{_AFTER}"
"""Numbers with a fraction, and maybe a unit, after a comma or a point."""
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})")


def as_texts(column: Series) -> Series:
    """The cells of a column as text; missing ones are empty.

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


def read_cells(
    cells: Series,
    column: Column | None = None,
    missing: Sequence[str] = (),
    *,
    refuse: Refuse,
) -> NDArray[np.float64]:
    """Feature values of a column's cells, of any type, float64, (cells,); NaN is missing.

    ``refuse`` is called for the first cell that is not a number. Numbers are those of Python's
    ``float``. A mark of ``missing`` that is a number is found in every spelling: -9 also for -9.0.

    >>> import polars
    >>> from safle import Column
    >>> from safle.tables.sources import ColumnSource
    >>> frame = polars.DataFrame({"size": ["7 mm", " 8", "?"]})
    >>> size = Column("size", 0, 90, "mm")
    >>> read_cells(frame["size"], size, ["?"], refuse=ColumnSource("ward", frame).refuse).tolist()
    [7.0, 8.0, nan]
    >>> sex = Column("sex", levels=("f", "m"))
    >>> cells = polars.Series(["m", " f", "d", "NA"])
    >>> read_cells(cells, sex, ["NA"], refuse=ColumnSource("ward", frame).refuse).tolist()
    [1.0, 0.0, 2.0, nan]
    """
    levels = () if column is None else column.levels
    if cells.dtype.is_numeric() or (column is None and str(cells.dtype) == "Boolean"):
        numbers = widen(cells)
        named = [float(level) for level in levels if is_number(level)]
        are_marks = np.isin(numbers, numeric_marks(missing)) & ~np.isin(numbers, named)
        numbers[are_marks] = math.nan
        return _places_of(numbers, levels)
    stripped = as_texts(cells).str.strip_chars()
    gaps = find_gaps(stripped, missing).to_numpy()
    if not levels:
        values = _numbers(stripped, gaps, "" if column is None else column.unit, refuse)
        values[np.isin(values, numeric_marks(missing))] = math.nan
        return values
    places = {level: float(place) for place, level in enumerate(levels)}
    values = stripped.replace_strict(places, default=float(len(levels))).to_numpy(writable=True)
    values[gaps & (values == len(levels))] = math.nan
    return values


def widen(cells: Series) -> NDArray[np.float64]:
    """Numbers as float64; those of single precision as the shortest decimal stored as the same.

    A file of single precision holds 0.100000001490116 where another one holds 0.1, or the text
    0.1. Read so, its columns are those of its own copy as text, and decimals of up to six digits
    are what they were before they came into such a file.

    >>> import polars
    >>> widen(polars.Series([0.1, None], dtype=polars.Float32)).tolist()
    [0.1, nan]
    """
    import polars as pl

    if cells.dtype == pl.Float16:
        # polars writes more digits of these than they have.
        cells = pl.Series(cells.to_numpy().astype(str))
    elif cells.dtype == pl.Float32:
        cells = cells.cast(pl.String)
    return np.array(cells.cast(float).to_numpy(), np.float64)


def is_rounded(cells: Series) -> bool:
    """Whether numbers of single precision were rounded to it: their decimals are too long."""
    import polars as pl

    digits = _digits(cells)
    decimals = pl.Series(widen(cells)) if digits else cells
    return bool(digits) and bool((decimals.round_sig_figs(digits) != decimals).any())


def _digits(cells: Series) -> int:
    """Most digits of decimals that survive in numbers of half or single precision; 0 for others."""
    return {"Float16": 4, "Float32": 7}.get(str(cells.dtype), 0)


def _places_of(values: NDArray[np.float64], levels: Sequence[str]) -> NDArray[np.float64]:
    """Numbers as they are, or the places of the levels that are these numbers."""
    if not levels:
        return values
    # Whole numbers with gaps are floats in most frames: "2" is 2.0.
    places = np.where(np.isnan(values), np.nan, float(len(levels)))
    for place, level in enumerate(levels):
        if is_number(level):
            places[values == float(level)] = place
    return places


def _numbers(
    stripped: Series, gaps: NDArray[np.bool_], unit: str, refuse: Refuse
) -> NDArray[np.float64]:
    cast = stripped.cast(float, strict=False)
    values = np.array(cast.to_numpy(), np.float64)
    values[gaps] = math.nan
    # polars leaves a few: numbers with a unit, spellings that only Python reads, other texts.
    unread = np.flatnonzero(cast.is_null().to_numpy() & ~gaps)
    known: dict[str, float] = {}
    for row in unread.tolist():
        text = stripped[row]
        if text not in known:
            number, found = (float(text), unit) if is_number(text) else split_unit(text)
            if found != unit or not (found or is_number(text)):
                refuse(row, advise(text))
            known[text] = number
        values[row] = known[text]
    return values


def numeric_marks(missing: Iterable[str]) -> list[float]:
    """The marks that are numbers.

    >>> numeric_marks(["", "NA", "NaN", "-9"])
    [-9.0]
    """
    numbers = [float(mark) for mark in missing if is_number(mark)]
    return [number for number in numbers if math.isfinite(number)]


def find_gaps(texts: Series, missing: Iterable[str]) -> Series:
    """Which texts, without spaces around them and in any case, mean a missing value."""
    return texts.str.to_lowercase().is_in([mark.strip().lower() for mark in missing])


def find_missing(texts: Series, missing: Sequence[str]) -> Series:
    """As `find_gaps`; a mark that is a number is found in every spelling.

    >>> import polars
    >>> find_missing(polars.Series(["-9.0", "NA", "9"]), ["-9", "NA"]).to_list()
    [True, True, False]
    """
    gaps = find_gaps(texts, missing)
    numbers = numeric_marks(missing)
    if not numbers:
        return gaps
    return gaps | texts.cast(float, strict=False).is_in(numbers).fill_null(value=False)


def split_unit(text: str) -> tuple[float, str]:
    """A number and the unit behind it; an empty unit if ``text`` is anything else.

    >>> split_unit("5.1 mmol/l"), split_unit("abc")
    ((5.1, 'mmol/l'), (0.0, ''))
    """
    found = _WITH_UNIT.fullmatch(text.strip())
    return (float(found[1]), found[2].strip()) if found else (0.0, "")


def replace_commas(texts: Series) -> Series:
    """Numbers with a point instead of a decimal comma; any other text as it is."""
    return texts.str.replace(DECIMAL_COMMA, "${1}.${2}")


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
    """What a cell that is not a number may be, and what to do about it; may be empty."""
    cell = text.strip()
    if cell.lower() in {mark.lower() for mark in MISSING}:
        return (
            " (it says that the value is missing: fill it, drop the row, or declare the table with "
            "'safle schema', which knows gaps)"
        )
    if is_date(cell):
        return " (it looks like a date: turn it into an age or a number of days, or leave it out)"
    if _THOUSANDS.fullmatch(cell):
        return " (a decimal comma or a thousands separator: write 1.320 or 1320 for 1,320)"
    if re.match(DECIMAL_COMMA, cell):
        return " (it looks like a decimal comma: write a point, or separate cells by semicolons)"
    if split_unit(cell)[1]:
        return " (it has a unit: take it out, or declare it with 'safle schema')"
    return ""
