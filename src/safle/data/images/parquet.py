"""Parquet files with encoded images, as the Hugging Face hub stores them (needs pyarrow).

A column of structs ``{bytes, path}`` or of plain bytes holds the images; the schema's
``huggingface`` metadata names the classes of integer labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from safle.data.images.files import Member
from safle.data.images.records import Label, Record, Unreadable, counted, listed, listing_digest
from safle.data.images.selection import LABEL_COLUMN, Selection
from safle.errors import ImageError, MissingExtra

# Encoded images of this many rows are in memory at a time.
_BATCH = 32
_IMAGE_COLUMNS = ("image", "img", "bytes")
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?\.parquet")
_SPLITS = frozenset({"train", "test", "val", "valid", "validation"})


class Shard(NamedTuple):
    """One Parquet file and what its images' names begin with."""

    name: str
    path: Path


class Columns(NamedTuple):
    """Which column holds what; ``classes`` are the names of integer labels."""

    image: str
    label: str | None
    classes: tuple[str, ...] | None


class ParquetImages:
    """The images of one or several Parquet files with the same columns."""

    def __init__(self, where: Path, shards: Sequence[Shard], selection: Selection) -> None:
        self._shards = shards
        self._most_bytes = selection.most_bytes
        self._counts = []
        columns = set()
        for shard in shards:
            with _opened(shard.path) as file:
                self._counts.append(file.metadata.num_rows)
                columns.add(_columns(shard.path, file.schema_arrow, selection))
        if len(columns) > 1:
            raise ImageError(f"{where}: its files have different columns; expected one data set")
        (self._columns,) = columns
        self.description = f"Parquet files in {where.name}: {counted(len(self), 'image')}, " + (
            f"labels in {self._columns.label!r}" if self._columns.label else "no labels"
        )

    def __len__(self) -> int:
        return sum(self._counts)

    def digest(self) -> str:
        """SHA-256 of the files' names, sizes and labels."""
        return listing_digest(self._listing())

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        for shard, count in zip(self._shards, self._counts, strict=True):
            if start < count:
                yield from self._shard_records(shard, start)
            start = max(0, start - count)

    def _shard_records(self, shard: Shard, start: int) -> Iterator[Record]:
        names = [name for name in self._columns[:2] if name is not None]
        with _opened(shard.path) as file:
            for row, batch in _batches(file, names, start):
                images, labels = batch.column(self._columns.image), self._labels(shard, batch)
                for at in range(max(0, start - row), batch.num_rows):
                    data = self._data(images[at])
                    yield Record(f"{shard.name}/{row + at:08d}", labels[at], data)

    def _listing(self) -> Iterator[tuple[object, ...]]:
        for shard, count in zip(self._shards, self._counts, strict=True):
            yield shard.name, shard.path.stat().st_size, count, self._columns
            if self._columns.label is not None:
                with _opened(shard.path) as file:
                    for _, batch in _batches(file, [self._columns.label], 0, size=4096):
                        yield tuple(self._labels(shard, batch))

    def _labels(self, shard: Shard, batch: Any) -> list[Label]:
        if self._columns.label is None:
            return [None] * batch.num_rows
        numbers: list[Label] = batch.column(self._columns.label).to_pylist()
        names = self._columns.classes
        if names is None:
            return numbers
        labels: list[Label] = []
        for number in numbers:
            # The hub writes -1 for a label it withholds.
            if number is not None and not -1 <= int(number) < len(names):
                raise ImageError(
                    f"{shard.path}: has the label {number}, but its metadata names "
                    f"{len(names)} classes, 0 to {len(names) - 1}; download it again"
                )
            labels.append(None if number is None or number == -1 else names[int(number)])
        return labels

    def _data(self, cell: Any) -> bytes:
        scalar = cell.get("bytes") if _has_fields(cell.type) and cell.is_valid else cell
        if not scalar.is_valid:
            return Unreadable("has no bytes in its row, at most a path; embed the images")
        size = scalar.as_buffer().size
        if size > self._most_bytes:
            return Unreadable(f"has {size} bytes; expected at most {self._most_bytes}")
        data: bytes = scalar.as_py()
        return data


def open_parquet(
    path: Path, selection: Selection, members: Sequence[Member] | None = None
) -> ParquetImages:
    """The images of a Parquet file, or of those among the files of a folder."""
    selection.refuse(path, "Parquet files, which have labels of their own", "labels")
    if members is None:
        selection.refuse(path, "a single .parquet file", "split")
        return ParquetImages(path, [Shard(path.name, path)], selection)
    splits = {member: _split_of(member.name) for member in members}
    split = selection.choose_split(path, {name for name in splits.values() if name is not None})
    chosen = [Shard(m.name, Path(str(m.at))) for m in members if splits[m] == split]
    return ParquetImages(path, chosen, selection)


def _split_of(name: str) -> str | None:
    """The split in a shard's name: ``train-00000-of-00002.parquet``, ``train/0000.parquet``."""
    file = PurePosixPath(name)
    found = _SHARD.fullmatch(file.name)
    if found is not None:
        return found["split"]
    return next((part for part in (file.stem, file.parent.name) if part in _SPLITS), None)


def _columns(path: Path, schema: Any, selection: Selection) -> Columns:
    features = _hub_features(schema)
    declared = [name for name, kind in features.items() if kind.get("_type") == "Image"]
    wanted = (selection.image_column,) if selection.image_column else (*declared, *_IMAGE_COLUMNS)
    image = next((name for name in wanted if name in schema.names), None)
    if image is None or not _holds_images(schema.field(image).type):
        raise ImageError(
            f"{path}: has the columns {listed(schema.names)}; expected encoded images, bytes or "
            f"structs of them, in {listed(dict.fromkeys(wanted))}: name the column with "
            "--image-column NAME (image_column= in Python)"
        )
    label = selection.label_column
    if label not in schema.names:
        if label != LABEL_COLUMN:
            raise ImageError(f"{path}: no column {label!r}; it has {listed(schema.names)}")
        return Columns(image, None, None)
    _check_label_type(path, schema.field(label))
    names = features.get(label, {}).get("names")
    classes = tuple(map(str, names)) if isinstance(names, list) else None
    return Columns(image, label, classes)


def _hub_features(schema: Any) -> dict[str, dict[str, Any]]:
    """The hub's description of the columns; nothing if there is none that makes sense."""
    try:
        described = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    if not isinstance(described, dict):
        return {}
    return {name: kind for name, kind in described.items() if isinstance(kind, dict)}


def _holds_images(kind: Any) -> bool:
    from pyarrow import types

    if _has_fields(kind):
        return any(field.name == "bytes" and _holds_images(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _has_fields(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_struct(kind))


def _check_label_type(path: Path, field: Any) -> None:
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if not any(f(kind) for f in (types.is_integer, types.is_string, types.is_large_string)):
        raise ImageError(
            f"{path}: column {field.name!r} holds {field.type}; expected labels, integers or text"
        )


def _batches(
    file: Any, columns: list[str], start: int, size: int = _BATCH
) -> Iterator[tuple[int, Any]]:
    """Batches with the number of their first row, from the one that holds row ``start`` on."""
    row = 0
    for group in range(file.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if start < row + count:
            at = row
            for batch in file.iter_batches(size, [group], columns, use_threads=False):
                if start < at + batch.num_rows:
                    yield at, batch
                at += batch.num_rows
        row += count


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "reading .parquet files") from error
    try:
        # Buffered: a row group of a gigabyte is read page by page.
        with parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        raise ImageError(
            f"{path}: not a whole .parquet file ({error}); download it again"
        ) from error
