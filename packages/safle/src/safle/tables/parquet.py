"""Parquet files: numeric columns, or one column of lists, streamed in batches (needs pyarrow)."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.optional import require
from safle.errors import TableError
from safle.tables.cells import Reader, cell_readers, read_cells, read_weight
from safle.tables.common import listed
from safle.tables.selection import Selection
from safle.tables.table import Rows, Table

# What pandas calls the row numbers it adds to a file: not a feature.
_INDEX_PREFIX = "__index_level_"


class ParquetRows(Rows):
    """The feature columns of a Parquet file.

    ``columns`` are numeric ones, or a single one whose cells are lists.
    """

    def __init__(
        self, path: Path, columns: list[str], shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> None:
        super().__init__(shape, dtype)
        self._path = path
        self._columns = columns

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        with _opened(self._path) as file:
            counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            ends = np.cumsum(counts)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            groups = file.read_row_groups(list(range(first, last + 1)), columns=self._columns)
            skipped = start - int(ends[first] - counts[first])
            return self._matrix(groups.slice(skipped, stop - start), start)

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """All rows in one pass over the file."""
        start = 0
        with _opened(self._path) as file:
            for batch in file.iter_batches(batch_size=size, columns=self._columns):
                yield self._matrix(batch, start)
                start += batch.num_rows

    def _matrix(self, rows: Any, start: int) -> NDArray[Any]:
        """The array of a pyarrow table or batch whose first row is row ``start``."""
        matrix = np.empty((rows.num_rows, self.shape[1]), self.dtype)
        for at, name in enumerate(self._columns):
            column = rows.column(name)
            self._check_whole(column.is_null(), name, start)
            if _is_list(column.type):
                return self._from_lists(column, name, start)
            matrix[:, at] = np.asarray(column)
        return matrix

    def _from_lists(self, column: Any, name: str, start: int) -> NDArray[Any]:
        import pyarrow.compute as compute

        width = self.shape[1]
        lengths = np.asarray(compute.list_value_length(column))
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise TableError(
                f"{self._path}: row {start + row}, column {name!r} has {lengths[row]} values, "
                f"the first row {width}; expected as many in every row"
            )
        values = compute.list_flatten(column)
        # One row's worth of values is one row, so the position in them tells the row.
        missing = np.asarray(values.is_null()).reshape(len(lengths), width).any(axis=1)
        self._check_whole(missing, name, start)
        return np.asarray(values).reshape(len(lengths), width).astype(self.dtype, copy=False)

    def _check_whole(self, missing: Any, name: str, start: int) -> None:
        gaps = np.asarray(missing)
        if gaps.any():
            raise TableError(
                f"{self._path}: row {start + int(np.argmax(gaps))}, column {name!r} has no "
                "value; expected a number: fill it or drop the row"
            )


class DeclaredRows(ParquetRows):
    """Columns of a schema, cell by cell as the same text in a CSV file would be read."""

    readers: Sequence[Reader] = ()

    def _matrix(self, rows: Any, start: int) -> NDArray[Any]:
        matrix = np.empty((rows.num_rows, self.shape[1]))
        lines = range(start, start + rows.num_rows)
        for at, name in enumerate(self._columns):
            texts = _texts(rows.column(name))
            read = self.readers[at]
            matrix[:, at] = read_cells(read, texts, lines, name=name, where=self._path)
        return matrix


def read_parquet_table(path: Path, selection: Selection) -> Table:
    """Features and labels from the columns of a Parquet file."""
    selection.refuse(path, "split", "labels_key")
    with _opened(path) as file:
        schema = file.schema_arrow
        label_column = selection.label_in(path, schema.names)
        others = {label_column, *selection.passed_over(path, schema.names)}
        if selection.schema is not None:
            return _declared(path, file, selection, label_column, others)
        columns = _feature_columns(path, schema, selection.features_key, others)
        kind = schema.field(columns[0]).type
        if _is_list(kind):
            width, dtype = _list_width(path, file, columns[0]), _numpy_type(kind.value_type)
        else:
            width = len(columns)
            dtype = np.result_type(*(_numpy_type(schema.field(name).type) for name in columns))
        features = ParquetRows(path, columns, (file.metadata.num_rows, width), dtype)
        labels = None if label_column is None else _labels(path, file, label_column)
        named = () if _is_list(kind) else (*columns,)
        return Table(features, labels, names=named, **_beside(path, file, selection))


def _declared(
    path: Path, file: Any, selection: Selection, label_column: str | None, others: set[str | None]
) -> Table:
    """The columns that a schema declares, whatever their types."""
    assert selection.schema is not None
    present = [name for name in file.schema_arrow.names if not name.startswith(_INDEX_PREFIX)]
    names = selection.arrange(path, [name for name in present if name not in others])
    rows = DeclaredRows(path, names, (file.metadata.num_rows, len(names)), np.dtype(np.float64))
    rows.readers = cell_readers(selection.schema)
    labels = None if label_column is None else _labels(path, file, label_column)
    return Table(rows, labels, names=(*names,), **_beside(path, file, selection))


def read_parquet_columns(path: Path) -> dict[str, list[str]]:
    """All cells as text, by column; empty where there is no value."""
    with _opened(path) as file:
        present = [n for n in file.schema_arrow.names if not n.startswith(_INDEX_PREFIX)]
        return {name: _texts(file.read(columns=[name]).column(name)) for name in present}


def _texts(column: Any) -> list[str]:
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _beside(path: Path, file: Any, selection: Selection) -> dict[str, Any]:
    """What the samples are called, and how often each is counted, where a column tells."""

    def cells(name: str) -> list[Any]:
        return [*file.read(columns=[name]).column(name).to_pylist()]

    found: dict[str, Any] = {}
    if selection.id_column is not None:
        found["ids"] = np.array([str(value) for value in cells(selection.id_column)])
    if selection.weight_column is not None:
        texts = map(str, cells(selection.weight_column))
        weights = [read_weight(text, path, row) for row, text in enumerate(texts)]
        found["weights"] = np.array(weights, np.int64)
    return found


def _feature_columns(
    path: Path, schema: Any, features_key: str | None, others: set[str | None]
) -> list[str]:
    """The one column of lists, else every numeric column but ``others``."""
    lists = [field.name for field in schema if _is_list(field.type) and _is_number(field.type)]
    wanted = features_key or "features"
    if wanted in lists:
        return [wanted]
    if features_key is not None:
        raise TableError(
            f"{path}: no column {features_key!r} of lists of numbers; it has "
            f"{listed(lists) or 'none, only ' + listed(schema.names)}"
        )
    numbers = [field.name for field in schema if _is_number(field.type)]
    known = {*lists, *others}
    numeric = [n for n in numbers if n not in known and not n.startswith(_INDEX_PREFIX)]
    if not numeric:
        raise TableError(
            f"{path}: has {listed(schema.names) or 'no columns'}; expected numeric columns or a "
            "column 'features' of lists: name another with --features-key KEY "
            "(features_key= in Python)"
        )
    return numeric


def _labels(path: Path, file: Any, name: str) -> NDArray[Any]:
    from pyarrow import types

    column = file.read(columns=[name]).column(name)
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise TableError(f"{path}: row {row} has no label in column {name!r}; expected one per row")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=np.str_)
    return np.asarray(column)


def _list_width(path: Path, file: Any, name: str) -> int:
    size = getattr(file.schema_arrow.field(name).type, "list_size", None)
    if size is not None:
        return int(size)
    first = next(file.iter_batches(batch_size=1, columns=[name]), None)
    if first is None or not first.column(0)[0].is_valid:
        raise TableError(f"{path}: column {name!r} has no first row to tell the feature count by")
    return len(first.column(0)[0])


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return any(f(kind) for f in (types.is_list, types.is_large_list, types.is_fixed_size_list))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    inner = kind.value_type if _is_list(kind) else kind
    return any(f(inner) for f in (types.is_integer, types.is_floating, types.is_boolean))


def _numpy_type(kind: Any) -> np.dtype[Any]:
    return np.dtype(kind.to_pandas_dtype())


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    require("pyarrow", "safle[parquet]", "reading .parquet files")
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        raise TableError(
            f"{path}: not a whole .parquet file ({error}); copy or export it again"
        ) from error
