"""CSV files with a header line: indexed once, then read chunk by chunk."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.data.tables.labels import parse_labels
from safle.data.tables.selection import LABEL_COLUMN, Contents, Selection
from safle.data.tables.table import Rows
from safle.errors import TableError

# A slice reads at most this many rows too many, and a million rows need 0.1 MB of marks.
_MARK_EVERY = 1024


class _Mark(NamedTuple):
    """Where a row begins: how many bytes and how many lines come before it."""

    offset: int
    line: int


class _Lines:
    """Lines of a UTF-8 file that knows its position, which a text file read by lines does not."""

    def __init__(self, file: BinaryIO, path: Path, mark: _Mark) -> None:
        file.seek(mark.offset)
        self._file = file
        self._path = path
        self.mark = mark

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        data = self._file.readline()
        if not data:
            raise StopIteration
        self.mark = _Mark(self.mark.offset + len(data), self.mark.line + 1)
        try:
            return data.decode("utf-8-sig" if self.mark.line == 1 else "utf-8")
        except UnicodeDecodeError:
            raise TableError(
                f"{self._path}: line {self.mark.line} is not UTF-8 text; save it as UTF-8"
            ) from None


class CsvRows(Rows):
    """The feature columns of a CSV file, as float64."""

    def __init__(
        self,
        path: Path,
        header: list[str],
        label_at: int | None,
        marks: list[_Mark],
        row_count: int,
    ) -> None:
        super().__init__((row_count, len(header) - (label_at is not None)), np.float64)
        self._path = path
        self._header = header
        self._label_at = label_at
        self._marks = marks

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        mark = self._marks[start // _MARK_EVERY]
        rows = read_rows(self._path, mark, len(self._header))
        skipped = start % _MARK_EVERY
        return self._parse(islice(rows, skipped, skipped + stop - start))

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """All rows in one pass over the file."""
        rows = read_rows(self._path, self._marks[0], len(self._header)) if len(self) else iter(())
        for start in range(0, len(self), size):
            yield self._parse(islice(rows, min(size, len(self) - start)))

    def _parse(self, rows: Iterator[tuple[_Mark, list[str]]]) -> NDArray[Any]:
        kept = []
        for mark, row in rows:
            if self._label_at is not None:
                del row[self._label_at]
            kept.append((mark.line, row))
        try:
            values = np.fromiter(map(float, chain.from_iterable(row for _, row in kept)), float)
        except ValueError:
            raise self._not_a_number(kept) from None
        return values.reshape(len(kept), self.shape[1])

    def _not_a_number(self, rows: list[tuple[int, list[str]]]) -> TableError:
        names = [name for at, name in enumerate(self._header) if at != self._label_at]
        line, name, cell = next(
            (line, name, cell)
            for line, row in rows
            for name, cell in zip(names, row, strict=True)
            if not _is_number(cell)
        )
        return TableError(
            f"{self._path}: line {line + 1}, column {name!r} is {cell!r}; expected a number: "
            "correct or drop it, or name the column of labels with --label-column NAME "
            "(label_column= in Python)"
        )


def read_csv_table(path: Path, selection: Selection) -> Contents:
    """Features and labels from the columns of a CSV file.

    One pass finds where rows begin, checks their widths and collects the labels.
    """
    selection.refuse(path, "split", "features_key", "labels_key")
    header, first = read_header(path)
    label_at = _label_at(path, header, selection.label_column)
    marks, texts, row_count = [], [], 0
    for mark, row in read_rows(path, first, len(header)):
        if row_count % _MARK_EVERY == 0:
            marks.append(mark)
        row_count += 1
        if label_at is not None:
            if not row[label_at].strip():
                raise TableError(f"{path}: line {mark.line + 1} has no label; expected one a row")
            texts.append(row[label_at])
    labels = None if label_at is None else parse_labels(texts, where=str(path))
    return Contents(CsvRows(path, header, label_at, marks, row_count), labels)


def read_rows(path: Path, mark: _Mark, width: int) -> Iterator[tuple[_Mark, list[str]]]:
    """Each row from ``mark`` on with where it begins; blank lines are passed over."""
    with path.open("rb") as file:
        lines = _Lines(file, path, mark)
        reader = csv.reader(lines, strict=True)
        while True:
            begin = lines.mark
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise TableError(
                    f"{path}: line {begin.line + 1}: {error}; expected cells separated by commas"
                ) from None
            if row is None:
                return
            if len(row) not in (0, width):
                raise TableError(
                    f"{path}: line {begin.line + 1} has {len(row)} cells, the header {width}; "
                    "expected as many in every row: the file may be cut short"
                )
            if row:
                yield begin, row


def read_header(path: Path) -> tuple[list[str], _Mark]:
    """The column names and where the rows begin."""
    with path.open("rb") as file:
        lines = _Lines(file, path, _Mark(0, 0))
        try:
            header = [name.strip() for name in next(csv.reader(lines, strict=True), [])]
        except csv.Error as error:
            raise TableError(f"{path}: line 1: {error}; expected names of columns") from None
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
    return header, lines.mark


def _label_at(path: Path, header: list[str], label_column: str) -> int | None:
    found = header.count(label_column)
    if found > 1:
        raise TableError(f"{path}: {found} columns are called {label_column!r}; expected one")
    if found == 0 and label_column != LABEL_COLUMN:
        raise TableError(
            f"{path}: no column {label_column!r}; it has {', '.join(header[:20])}"
            f"{', ...' if len(header) > 20 else ''}"
        )
    if len(header) == found:
        raise TableError(f"{path}: has no column but {label_column!r}; expected features too")
    return header.index(label_column) if found else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
