"""CSV files with a header: paths and labels of images, or labels of images found elsewhere."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from safle.data.images.records import Label, counted, listed
from safle.data.images.selection import LABEL_COLUMN, Selection
from safle.errors import ImageError

IMAGE_COLUMNS = ("path", "image", "image_path", "file", "filename", "file_name", "filepath", "id")
_SPLIT_COLUMN = "split"
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


class Row(NamedTuple):
    """One line of a CSV file."""

    line: int
    image: str
    label: str | None
    split: str | None


def read_rows(path: Path, selection: Selection) -> list[Row]:
    """All rows of a CSV file, each with a path and, where there is a column, a label."""
    lines = _cells(path)
    _, header = next(lines, (1, []))
    image_at = _image_at(path, header, selection.image_column)
    label_at = _label_at(path, header, selection.label_column)
    split_at = header.index(_SPLIT_COLUMN) if _SPLIT_COLUMN in header else None
    rows = []
    for line, cells in lines:
        if len(cells) != len(header):
            raise ImageError(
                f"{path}: line {line} has {len(cells)} cells, the header {len(header)}; expected "
                "as many in every row: the file may be cut short"
            )
        image = cells[image_at].strip()
        label = None if label_at is None else cells[label_at].strip()
        split = None if split_at is None else cells[split_at].strip()
        for cell, what in ((image, "path"), (label, "label"), (split, "split")):
            if cell == "":
                raise ImageError(f"{path}: line {line} has no {what}; expected one a row")
        rows.append(Row(line, image, label, split))
    if not rows:
        raise ImageError(f"{path}: has no rows below its header; expected one an image")
    return rows


def typed_labels(labels: Sequence[str | None], *, where: Path) -> list[Label]:
    """Labels from text: integers if every one is, else all are strings."""
    if not all(label is not None and _INTEGER.fullmatch(label) for label in labels):
        return list(labels)
    numbers = [int(label or 0) for label in labels]
    if not -(2**63) <= min(numbers) <= max(numbers) < 2**63:
        raise ImageError(
            f"{where}: has an integer label that does not fit in 64 signed bits; put a letter "
            "before the numbers to make them names"
        )
    return list(numbers)


def read_label_file(path: Path, names: Sequence[str], selection: Selection) -> list[Label]:
    """The label of each named image from a CSV file.

    A row names an image by its path inside the source, by its file name, or by
    that without its suffix.
    """
    rows = read_rows(path, selection)
    if rows[0].label is None:
        raise ImageError(f"{path}: no column {selection.label_column!r}; name it: --label-column")
    by_image = {row.image: row.label for row in rows}
    if len(by_image) < len(rows):
        raise ImageError(f"{path}: names an image twice; expected one row an image")
    used: dict[str, str] = {}
    missing, labels = [], []
    for name in names:
        last = PurePosixPath(name)
        key = next((key for key in (name, last.name, last.stem) if key in by_image), None)
        if key is None:
            missing.append(name)
            continue
        if key in used:
            raise ImageError(
                f"{path}: {key!r} is both {used[key]} and {name}; give each its whole path"
            )
        used[key] = name
        labels.append(by_image[key])
    if missing:
        raise ImageError(
            f"{path}: has no label for {counted(len(missing), 'image')} of {len(names)}, such as "
            f"{listed(missing, 3)}; add them, or move the images away"
        )
    return typed_labels(labels, where=path)


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its last line; blank lines are passed over."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if row:
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except csv.Error as error:
        raise ImageError(
            f"{path}: line {reader.line_num}: {error}; expected cells separated by commas"
        ) from None
    except OSError as error:
        raise ImageError(f"{path}: cannot be read: {error.strerror}") from error


def _image_at(path: Path, header: list[str], wanted: str | None) -> int:
    names = (wanted,) if wanted is not None else IMAGE_COLUMNS
    found = next((name for name in names if name in header), None)
    if found is None:
        raise ImageError(
            f"{path}: has the columns {listed(header) or '(none)'}; expected a header with the "
            f"images' paths in {listed(names)}: name the column with --image-column NAME "
            "(image_column= in Python)"
        )
    return header.index(found)


def _label_at(path: Path, header: list[str], wanted: str) -> int | None:
    if wanted in header:
        return header.index(wanted)
    if wanted != LABEL_COLUMN:
        raise ImageError(f"{path}: no column {wanted!r}; it has {listed(header)}")
    return None


def disk_path(path: Path, image: str) -> str:
    """Where an image named in a CSV file is: relative paths begin beside the file."""
    return os.path.join(path.parent, image)  # noqa: PTH118 (a Path for each is slow)
