"""CSV and Parquet files -> polars frames of columns with names."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from safle.basics.memory import require_free_memory
from safle.errors import TableError
from safle.tables.cells import DECIMAL_COMMA, DECIMAL_POINT, is_number
from safle.tables.sources import ColumnSource

if TYPE_CHECKING:
    from polars import DataFrame

COLUMN_SUFFIXES = (".csv", ".parquet")
DELIMITERS = ",;\t|"
"""If several split a header into as many cells, the first one counts."""
# pandas adds its row numbers to a Parquet file under such names: they are not data.
_INDEX_PREFIX = "__index_level_"
MAGIC = b"PAR1"
"""The first and the last bytes of a Parquet file."""


def open_columns(path: Path) -> ColumnSource:
    """The columns of a file; `TableError` unless its suffix is one of `COLUMN_SUFFIXES`."""
    suffix = path.suffix.lower()
    if suffix not in COLUMN_SUFFIXES:
        raise TableError(f"{path}: only {' and '.join(COLUMN_SUFFIXES)} files name their columns")
    return read_csv(path) if suffix == ".csv" else read_parquet(path)


def read_csv(path: Path) -> ColumnSource:
    """All cells of a CSV file, as texts; its header decides the delimiter."""
    import polars as pl

    delimiter, header = _find_header(path)
    frame = _read_fast(path, delimiter, header)
    if frame is None:
        rows = [row for _, row in _rows(path, delimiter)]
        frame = pl.DataFrame(rows, dict.fromkeys(header, pl.String), orient="row")

    def line_of(row: int) -> int:
        return next(islice(_rows(path, delimiter), row, None))[0]

    opened = ColumnSource(str(path), frame, is_text=True, line_of=line_of)
    return replace(opened, decimal_comma=delimiter != "," and _has_decimal_commas(opened))


def _read_fast(path: Path, delimiter: str, header: list[str]) -> DataFrame | None:
    """The cells as polars reads them; None if a row needs Python's reader, or its error message."""
    import polars as pl

    try:
        frame = pl.read_csv(
            path,
            separator=delimiter,
            infer_schema=False,
            empty_string_is_null=False,
            glob=False,
        )
    # polars opens no file whose name is not UTF-8, and raises a TypeError.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError):
        return None
    # polars leaves the last cell empty in a blank line, and in one that is cut short.
    if frame.width != len(header) or (frame.get_columns()[-1] == "").any():
        return None
    frame.columns = header
    return frame


def _has_decimal_commas(opened: ColumnSource) -> bool:
    comma, point = (_first_row(opened.frame, pattern) for pattern in (DECIMAL_COMMA, DECIMAL_POINT))
    if comma is not None and point is not None:
        lines = opened.line_of(comma), opened.line_of(point)
        raise TableError(
            f"{opened.where}: fractions have ',' in line {lines[0]} and '.' in line {lines[1]}; "
            "expected one of them: is the comma a decimal comma, or does it separate thousands? "
            "Write numbers one way",
            line=max(lines),
        )
    return comma is not None


def _first_row(frame: DataFrame, pattern: str) -> int | None:
    """The first row in which a cell matches."""
    import polars as pl

    found = frame.select(pl.any_horizontal(pl.all().str.contains(pattern))).to_series()
    return found.arg_max() if found.any() else None


def _find_header(path: Path) -> tuple[str, list[str]]:
    """The delimiter that splits the first line into most cells, and these cells."""
    headers: dict[str, list[str]] = {}
    for delimiter in DELIMITERS:
        with suppress(TableError):
            headers[delimiter] = next(_numbered_rows(path, delimiter), (1, []))[1]
    if not headers:
        next(_numbered_rows(path, ","))
    delimiter = max(headers, key=lambda mark: len(headers[mark]))
    header = [name.strip() for name in headers[delimiter]]
    if "" in header or not header:
        raise TableError(
            f"{path}: line 1 has a column without a name; expected a header that names every "
            "column (pandas: to_csv(..., index=False))"
        )
    name, times = Counter(header).most_common(1)[0]
    if times > 1:
        raise TableError(f"{path}: {times} columns are called {name!r}; expected one")
    # Columns called 0, 1, 2, ... are what pandas writes for a plain matrix.
    if all(map(is_number, header)) and header != [str(place) for place in range(len(header))]:
        raise TableError(
            f"{path}: line 1 is all numbers; expected a header that names every column: add one"
        )
    return delimiter, header


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row below the header with the line it begins in; blank lines are skipped."""
    lines = _numbered_rows(path, delimiter)
    width = len(next(lines, (1, []))[1])
    for line, row in lines:
        if len(row) not in (0, width):
            raise TableError(
                f"{path}: line {line} has {len(row)} cells, the header {width}; "
                "expected the same number: the file may be cut short",
                line=line,
            )
        if row:
            yield line, row


def _numbered_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of the line it begins in."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_require_utf8(path, file), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise TableError(
                    f"{path}: line {line}: {error}; expected cells separated by {delimiter!r}",
                    line=line,
                ) from None
            if row is None:
                return
            yield line, row


def _require_utf8(path: Path, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        # Bytes that are not UTF-8 became lone surrogates, which no text has.
        if not line.isascii() and any("\udc80" <= char <= "\udcff" for char in line):
            raise TableError(
                f"{path}: line {number} is not UTF-8 text; save it as UTF-8", line=number
            )
        yield line


def read_parquet(path: Path) -> ColumnSource:
    """All columns of a Parquet file, of any type."""
    frame = _read_parquet(path)
    frame = frame.select(name for name in frame.columns if not name.startswith(_INDEX_PREFIX))
    if not frame.width:
        raise TableError(f"{path}: has no columns; expected features")
    return ColumnSource(str(path), frame)


def _read_parquet(path: Path) -> DataFrame:
    """The file's frame, if memory has room for what its metadata say."""
    import polars as pl

    with path.open("rb") as file:
        whole = file.read(4) == MAGIC and file.seek(-4, 2) and file.read() == MAGIC
    if not whole:
        raise TableError(f"{path}: not a whole .parquet file; copy or export it again")
    try:
        lazy = pl.scan_parquet(path, glob=False)
        width = len(lazy.collect_schema())
        rows = int(lazy.select(pl.len()).collect().item())
        require_free_memory(
            8 * rows * width,
            purpose=f"{path}: a table of {rows:,} rows and {width:,} columns",
            advice="split the file into smaller ones, and sum their counts",
        )
        return lazy.collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OverflowError) as error:
        raise TableError(
            f"{path}: not a whole .parquet file ({str(error)[:80]}); copy or export it again"
        ) from None
