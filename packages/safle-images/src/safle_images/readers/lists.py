"""CSV files with a header: paths and labels of images, or labels of images found elsewhere.

Read as the tables' CSV files are. The reader of Hugging Face ``datasets`` goes by pandas, which
takes a class called NA for no label, 007 for 7, and fills up rows that were cut short.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from safle.errors import ImageError
from safle.tables.common import find_label, listed
from safle.tables.delimited import find_form, read_header, read_rows
from safle.tables.labels import parse_labels
from safle_images.readers.files import (
    DiskFiles,
    FileImages,
    Member,
    as_image_error,
    path_inside,
    plain_name,
)
from safle_images.readers.sources import Label, Selection, counted

IMAGE_COLUMNS = ("path", "image", "image_path", "file", "filename", "file_name", "filepath", "id")


class Row(NamedTuple):
    """One line of a CSV file."""

    line: int
    image: str
    label: str | None
    split: str | None


def open_csv(path: Path, selection: Selection) -> FileImages:
    """The images that a CSV file lists, in its order; every one must be there."""
    selection.refuse(path, "a .csv file, which has labels of its own", "labels")
    rows = _read_list(path, selection)
    split = selection.choose_split(path, (row.split for row in rows))
    rows = [row for row in rows if row.split == split]
    files = DiskFiles(path, _members(path, rows), most_bytes=selection.most_bytes)
    for member in files.members:
        files.check_size(member)
    labels = _typed([row.label for row in rows], path)
    return FileImages(files, files.members, labels, f"files listed in {path.name}", split)


def read_label_file(path: Path, names: Sequence[str], selection: Selection) -> list[Label]:
    """The label of each named image from a CSV file.

    A row names an image by its path inside the source, by its file name, or by
    that without its suffix.
    """
    rows = _read_list(path, selection)
    if rows[0].label is None:
        raise ImageError(f"{path}: no column {selection.label_column!r}; name it: --label-column")
    by_image = {row.image: row.label for row in rows}
    if len(by_image) < len(rows):
        raise ImageError(f"{path}: names an image twice; expected one row per image")
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
    return _typed(labels, path)


def _read_list(path: Path, selection: Selection) -> list[Row]:
    """All rows of a CSV file, each with a path and, where there is a column, a label."""
    with as_image_error():
        form = find_form(path)
        header, found = read_header(path, form), list(read_rows(path, form))
    paths = _image_column(path, header, selection.image_column)
    columns = paths, _label_column(path, header, paths, selection.label_column), "split"
    places = [header.index(name) if name in header else None for name in columns]
    rows = []
    for line, cells in found:
        image, label, split = (None if at is None else cells[at].strip() for at in places)
        for cell, what in ((image, "path"), (label, "label"), (split, "split")):
            if cell == "":
                raise ImageError(f"{path}: line {line} has no {what}; expected one per row")
        rows.append(Row(line, image or "", label, split))
    if not rows:
        raise ImageError(f"{path}: has no rows below its header; expected one per image")
    return rows


def _members(path: Path, rows: list[Row]) -> list[Member]:
    members, missing, lines = [], [], dict[str, int]()
    for row in rows:
        # A path with a zero byte in it is nowhere.
        at = None if "\0" in row.image else path_inside(path.parent, row.image)
        if at is None:
            raise ImageError(
                f"{path}: line {row.line} names {row.image!r}, which is not below "
                f"{path.parent.resolve()}; expected paths that begin there: move the list to a "
                "folder above all images"
            )
        if not at.is_file():
            missing.append((row.line, at))
            continue
        name = plain_name(row.image)
        first = lines.setdefault(name, row.line)
        if first != row.line:
            raise ImageError(
                f"{path}: lines {first} and {row.line} both name {name}; expected every image once"
            )
        members.append(Member(name, at.stat().st_size, str(at)))
    if missing:
        line, at = missing[0]
        raise ImageError(
            f"{path}: {counted(len(missing), 'image')} of {len(rows)} not there or not a regular "
            f"file, the first in line {line}: {at}; paths begin at {path.parent.resolve()}"
        )
    return members


def _typed(labels: Sequence[str | None], where: Path) -> list[Label]:
    """Labels from text: integers if every one is, else all are strings."""
    texts = [label for label in labels if label is not None]
    if len(texts) < len(labels):
        return list(labels)
    with as_image_error():
        typed: list[Label] = parse_labels(texts, where=str(where)).tolist()
    return typed


def _label_column(path: Path, header: list[str], image: str, wanted: str) -> str | None:
    """The column of labels; None if nothing could be one, or '' was wanted."""
    others = [name for name in header if name not in (image, "split")]
    found = find_label(path, wanted, header, ImageError) if wanted else None
    if found is None and wanted and others:
        raise ImageError(
            f"{path}: no column {wanted!r} but {listed(others)}; say which is the label with "
            "--label-column NAME (label_column= in Python), or that there is none with an empty "
            "NAME"
        )
    return found


def _image_column(path: Path, header: list[str], wanted: str | None) -> str:
    names = (wanted,) if wanted is not None else IMAGE_COLUMNS
    found = next((name for name in names if name in header), None)
    if found is None:
        raise ImageError(
            f"{path}: has the columns {listed(header)}; expected a header with the images' paths "
            f"in {listed(names)}: name the column with --image-column NAME "
            "(image_column= in Python)"
        )
    return found
