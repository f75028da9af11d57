"""CSV files with a header line, read chunk by chunk."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import TableError
from safle.tables.cells import (
    FRACTION,
    Reader,
    cell_readers,
    is_number,
    read_cells,
    read_weight,
    with_point,
)
from safle.tables.common import listed
from safle.tables.labels import parse_labels
from safle.tables.selection import Selection
from safle.tables.table import Rows, Table

DELIMITERS = ",;\t|"
"""Those that come first win where a header has as many cells by several."""


@dataclass(frozen=True)
class Form:
    """How a file separates its cells, and how it writes its fractions."""

    delimiter: str = ","
    decimal_comma: bool = False

    def reader(self, read: Reader) -> Reader:
        """``read``, for cells that may have a decimal comma."""
        if not self.decimal_comma:
            return read
        return lambda text: read(with_point(text))


def find_form(path: Path) -> Form:
    """The form of a file: its header tells the delimiter, its cells the decimal comma."""
    widths = {}
    for delimiter in DELIMITERS:
        with suppress(TableError):
            widths[delimiter] = len(next(_read_lines(path, Form(delimiter)), (1, []))[1])
    delimiter = max(widths, key=widths.__getitem__, default=",")
    if delimiter == ",":
        return Form()
    found: dict[str, int] = {}
    for line, row in read_rows(path, Form(delimiter)):
        for cell in row:
            if fraction := FRACTION.fullmatch(cell.strip()):
                found.setdefault(fraction[1], line)
    if len(found) > 1:
        first, second = (f"{mark!r} in line {line}" for mark, line in found.items())
        raise TableError(
            f"{path}: fractions have {first} and {second}; expected one of them: is the comma a "
            "decimal comma, or does it separate thousands? Write numbers one way",
            line=max(found.values()),
        )
    return Form(delimiter, decimal_comma="," in found)


class CsvRows(Rows):
    """The feature columns of a CSV file, as float64; a slice reads all that is before it.

    Parameters
    ----------
    names, chosen : of the columns, and where they stand in a row
    readers : of their cells, one each; all are plain numbers if there are none
    """

    def __init__(
        self,
        path: Path,
        form: Form,
        names: Sequence[str],
        chosen: list[int],
        rows: int,
        readers: Sequence[Reader] = (),
    ) -> None:
        super().__init__((rows, len(chosen)), np.float64)
        self._path, self._form = path, form
        self._names, self._chosen = names, chosen
        self._readers = readers

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        return self._parse(islice(read_rows(self._path, self._form), start, stop))

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """All rows in one pass over the file."""
        rows = read_rows(self._path, self._form)
        for start in range(0, len(self), size):
            yield self._parse(islice(rows, min(size, len(self) - start)))

    def _parse(self, rows: Iterator[tuple[int, list[str]]]) -> NDArray[Any]:
        kept = [(line, [row[at] for at in self._chosen]) for line, row in rows]
        if not self._readers and not self._form.decimal_comma:
            try:
                values = np.fromiter(map(float, chain.from_iterable(row for _, row in kept)), float)
                return values.reshape(len(kept), self.shape[1])
            except ValueError:
                pass  # Found and named below.
        lines, matrix = [line for line, _ in kept], np.empty((len(kept), self.shape[1]))
        for at, name in enumerate(self._names):
            texts = [row[at] for _, row in kept]
            read = self._form.reader(self._readers[at] if self._readers else float)
            matrix[:, at] = read_cells(read, texts, lines, name=name, where=self._path)
        return matrix


def read_csv_table(path: Path, selection: Selection) -> Table:
    """Features and labels from the columns of a CSV file.

    One pass checks the rows' widths and collects the labels.
    """
    selection.refuse(path, "split", "features_key", "labels_key")
    form = find_form(path)
    header = read_header(path, form)
    label_column = selection.label_in(path, header)
    if label_column is not None and header.count(label_column) > 1:
        found = header.count(label_column)
        raise TableError(f"{path}: {found} columns are called {label_column!r}; expected one")
    others = {label_column, *selection.passed_over(path, header)}
    chosen = [at for at, name in enumerate(header) if name not in others]
    if not chosen:
        raise TableError(f"{path}: has no column but {listed(header)}; expected features too")
    names = selection.arrange(path, [header[at] for at in chosen])
    if selection.schema is not None:
        chosen = [header.index(name) for name in names]
    label_at = None if label_column is None else header.index(label_column)
    id_at = None if selection.id_column is None else header.index(selection.id_column)
    weight_at = None if selection.weight_column is None else header.index(selection.weight_column)
    labels, ids, weights, row_count = [], [], [], 0
    for line, row in read_rows(path, form):
        row_count += 1
        labels += [] if label_at is None else [_label(row[label_at], path, line)]
        ids += [] if id_at is None else [row[id_at].strip()]
        weights += [] if weight_at is None else [read_weight(row[weight_at], path, line)]
    readers = [] if selection.schema is None else cell_readers(selection.schema)
    return Table(
        CsvRows(path, form, names, chosen, row_count, readers),
        None if label_at is None else parse_labels(labels, where=str(path)),
        names=_names(names),
        ids=None if id_at is None else np.array(ids, np.str_),
        weights=None if weight_at is None else np.array(weights, np.int64),
    )


def read_csv_columns(path: Path) -> dict[str, list[str]]:
    """All cells as text, by column; fractions with a point."""
    form = find_form(path)
    header, rows = read_header(path, form), [row for _, row in read_rows(path, form)]
    write = with_point if form.decimal_comma else str
    return {name: [write(row[at]) for row in rows] for at, name in enumerate(header)}


def _label(cell: str, path: Path, line: int) -> str:
    # Spaces around it would make a class of its own.
    if not (label := cell.strip()):
        raise TableError(f"{path}: line {line} has no label; expected one per row", line=line)
    return label


def _names(found: list[str]) -> tuple[str, ...]:
    """Names that tell columns apart; those of a plain matrix, 0, 1, 2, ..., are none."""
    plain = found == [str(at) for at in range(len(found))]
    return () if plain or len({*found}) < len(found) else (*found,)


def read_rows(path: Path, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Each row below the header with the line it begins in; blank lines are passed over."""
    lines = _read_lines(path, form)
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


def read_header(path: Path, form: Form) -> list[str]:
    """The column names."""
    _, cells = next(_read_lines(path, form), (1, []))
    header = [name.strip() for name in cells]
    if "" in header or not header:
        raise TableError(
            f"{path}: line 1 has a column without a name; expected a header that names every "
            "column (pandas: to_csv(..., index=False))"
        )
    # Columns called 0, 1, 2, ... are what pandas writes for a plain matrix.
    if all(map(is_number, header)) and header != [str(at) for at in range(len(header))]:
        raise TableError(
            f"{path}: line 1 is all numbers; expected a header that names every column: add one"
        )
    return header


def _read_lines(path: Path, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of the line it begins in."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_decoded(path, file), delimiter=form.delimiter, strict=True)
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
