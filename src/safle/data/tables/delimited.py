"""CSV files with a header line, read chunk by chunk."""

import csv
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.data.common import listed
from safle.data.tables.labels import parse_labels
from safle.data.tables.selection import Contents, Selection
from safle.data.tables.table import Rows
from safle.errors import TableError


class CsvRows(Rows):
    """The feature columns of a CSV file, as float64; a slice reads all that is before it."""

    def __init__(self, path: Path, header: list[str], chosen: list[int], rows: int) -> None:
        super().__init__((rows, len(chosen)), np.float64)
        self._path = path
        self._names = [header[at] for at in chosen]
        self._chosen = None if len(chosen) == len(header) else chosen

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        return self._parse(islice(read_rows(self._path), start, stop))

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """All rows in one pass over the file."""
        rows = read_rows(self._path)
        for start in range(0, len(self), size):
            yield self._parse(islice(rows, min(size, len(self) - start)))

    def _parse(self, rows: Iterator[tuple[int, list[str]]]) -> NDArray[Any]:
        kept = [*rows]
        if self._chosen is not None:
            kept = [(line, [row[at] for at in self._chosen]) for line, row in kept]
        try:
            values = np.fromiter(map(float, chain.from_iterable(row for _, row in kept)), float)
        except ValueError:
            raise self._not_a_number(kept) from None
        return values.reshape(len(kept), self.shape[1])

    def _not_a_number(self, rows: list[tuple[int, list[str]]]) -> TableError:
        line, name, cell = next(
            (line, name, cell)
            for line, row in rows
            for name, cell in zip(self._names, row, strict=True)
            if not _is_number(cell)
        )
        return TableError(
            f"{self._path}: line {line}, column {name!r} is {cell!r}; expected a number: "
            "correct or drop it, or name the column of labels with --label-column NAME "
            "(label_column= in Python), or leave the column out with --ignore NAME (ignore=)",
            line=line,
        )


def read_csv_table(path: Path, selection: Selection) -> Contents:
    """Features and labels from the columns of a CSV file.

    One pass checks the rows' widths and collects the labels.
    """
    selection.refuse(path, "split", "features_key", "labels_key")
    header = read_header(path)
    label_column = selection.label_in(path, header)
    if label_column is not None and header.count(label_column) > 1:
        found = header.count(label_column)
        raise TableError(f"{path}: {found} columns are called {label_column!r}; expected one")
    others = {label_column, *selection.passed_over(path, header)}
    chosen = [at for at, name in enumerate(header) if name not in others]
    if not chosen:
        raise TableError(f"{path}: has no column but {listed(header)}; expected features too")
    label_at = None if label_column is None else header.index(label_column)
    id_at = None if selection.id_column is None else header.index(selection.id_column)
    labels, ids, row_count = [], [], 0
    for line, row in read_rows(path):
        row_count += 1
        labels += [] if label_at is None else [_label(row[label_at], path, line)]
        ids += [] if id_at is None else [row[id_at].strip()]
    return Contents(
        CsvRows(path, header, chosen, row_count),
        None if label_at is None else parse_labels(labels, where=str(path)),
        names=_names([header[at] for at in chosen]),
        ids=None if id_at is None else np.array(ids, np.str_),
    )


def _label(cell: str, path: Path, line: int) -> str:
    # Spaces around it would make a class of its own.
    if not (label := cell.strip()):
        raise TableError(f"{path}: line {line} has no label; expected one per row", line=line)
    return label


def _names(found: list[str]) -> tuple[str, ...]:
    """Names that tell columns apart; those of a plain matrix, 0, 1, 2, ..., are none."""
    plain = found == [str(at) for at in range(len(found))]
    return () if plain or len({*found}) < len(found) else (*found,)


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row below the header with the line it begins in; blank lines are passed over."""
    lines = _read_lines(path)
    _, header = next(lines, (1, []))
    width = len(header)
    for line, row in lines:
        if len(row) not in (0, width):
            raise TableError(
                f"{path}: line {line} has {len(row)} cells, the header {width}; "
                "expected as many in every row: the file may be cut short",
                line=line,
            )
        if row:
            yield line, row


def read_header(path: Path) -> list[str]:
    """The column names."""
    _, cells = next(_read_lines(path), (1, []))
    header = [name.strip() for name in cells]
    if "" in header or not header:
        raise TableError(
            f"{path}: line 1 has a column without a name; expected a header that names every "
            "column (pandas: to_csv(..., index=False))"
        )
    # Columns called 0, 1, 2, ... are what pandas writes for a plain matrix.
    if all(map(_is_number, header)) and header != [str(at) for at in range(len(header))]:
        raise TableError(
            f"{path}: line 1 is all numbers; expected a header that names every column: add one"
        )
    return header


def _read_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of the line it begins in."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_decoded(path, file), strict=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise TableError(
                    f"{path}: line {line}: {error}; expected cells separated by commas",
                    line=line,
                ) from None
            if row is None:
                return
            yield line, row


def _decoded(path: Path, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        # Bytes that are no text became lone surrogates, which text never holds.
        if not line.isascii() and any("\udc80" <= char <= "\udcff" for char in line):
            raise TableError(
                f"{path}: line {number} is not UTF-8 text; save it as UTF-8", line=number
            )
        yield line


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
