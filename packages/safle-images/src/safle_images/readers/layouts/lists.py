"""Images that a CSV file lists, and the layouts whose list has columns of its own.

A list names paths below its own folder, or files by their names alone, without folder and suffix.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import polars as pl

from safle.errors import ImageError, TableError
from safle.tables import parse_labels
from safle_images.readers.files import Files, Member, is_image, path_inside, plain_name
from safle_images.readers.sources import ImageSource, Label, Selection

EXPECTED = "a .csv or .tsv file"
COLUMNS = (
    *("path", "image", "image_path", "file", "filename", "file_name", "filepath", "id"),
    "image_id",
)


def recognises(files: Files) -> bool:
    """Whether it is one file with the suffix of a list."""
    return files.kind == "file" and files.path.suffix.lower() in (".csv", ".tsv")


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images in the order of the list; every file must exist."""
    (listing,) = files.members
    return open_list(files, listing, selection, f"files listed in {files.path.name}")


def open_list(
    files: Files, listing: Member, selection: Selection, kind: str, label: str | None = None
) -> ImageSource:
    """The images of a list; ``label`` is the column of labels if the user names none."""
    frame = read_frame(files, listing)
    where = f"{files.path}: {listing.name}" if files.kind != "file" else str(files.path)
    image = selection.image_of(where, frame.columns, COLUMNS)
    others = [name for name in frame.columns if name not in (image, "split")]
    column = selection.label_of(where, others, [label] if label in others else [])
    splits = _cells(frame, "split", "split", where)
    split = selection.choose_split(where, splits)
    names = _cells(frame, image, "path", where)
    labels = _typed(_cells(frame, column, "label", where), where)
    rows = [at for at in range(len(frame)) if splits[at] == split]
    chosen = [(at + 1, str(names[at])) for at in rows]
    members = find_images(files, chosen, where)
    return files.source(kind, split, members, [labels[at] for at in rows])


def read_frame(files: Files, listing: Member) -> pl.DataFrame:
    """All rows of a list, every cell as text: a class may be called NA, or 007."""
    data = files.read(listing)
    where = f"{files.path}: {listing.name}" if files.kind != "file" else str(files.path)
    try:
        separator = max(",;\t", key=data.split(b"\n", 1)[0].decode("utf-8-sig").count)
        frame = pl.read_csv(io.BytesIO(data), infer_schema=False, separator=separator)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        raise ImageError(
            f"{where}: not a .csv file; expected UTF-8 text that is not empty, a header and rows "
            "of as many cells"
        ) from None
    if not len(frame):
        raise ImageError(f"{where}: has no rows below its header; expected one row per image")
    return frame


def find_images(files: Files, rows: Sequence[tuple[int, str]], where: str) -> list[Member]:
    """The file of each row (its number, its name), by path or by name."""
    first = rows[0][1]
    by_name = not is_image(first)
    if files.kind == "file" and not (by_name and not _exists(files, first)):
        members = [_by_path(files, row, name) for row, name in rows]
    else:
        around = Files(files.path.parent) if files.kind == "file" else files
        find = _by_stem(around)
        members = [find(row, name, where) for row, name in rows]
    files.check(members)
    return members


def _exists(files: Files, name: str) -> bool:
    place = path_inside(files.path.parent, name)
    return place is not None and place.exists()


def _by_path(files: Files, row: int, name: str) -> Member:
    folder = files.path.parent
    place = path_inside(folder, name)
    if place is None:
        raise ImageError(
            f"{files.path}: row {row} names {name!r}, which is not below {folder.resolve()}; move "
            "the list to a folder above all images"
        )
    if not place.is_file():
        raise ImageError(
            f"{files.path}: row {row} names {place}, which does not exist or is not a regular "
            f"file; paths are relative to {folder.resolve()}"
        )
    return Member(plain_name(name), place.stat().st_size, str(place))


def _by_stem(files: Files) -> Callable[[int, str, str], Member]:
    """A function that finds an image by its name without suffix, in any folder."""
    stems: dict[str, Member] = {}
    for image in files.images:
        stem = PurePosixPath(image.base).stem
        other = stems.setdefault(stem, image)
        # Some copies of an archive hold a folder twice, in capitals and in small letters.
        if other.name.casefold() != image.name.casefold() or other.size != image.size:
            raise ImageError(
                f"{files.path}: has two files for {stem}: {other.name} and {image.name}; expected "
                "one: remove the other"
            )

    def find(row: int, name: str, where: str) -> Member:
        found = stems.get(plain_name(name if not is_image(name) else PurePosixPath(name).stem))
        if found is None:
            raise ImageError(
                f"{where}: row {row} names {name!r}, but {files.path} has no image of this name, "
                "with any suffix, in any folder: put the images beside the list"
            )
        return found

    return find


def _cells(frame: pl.DataFrame, column: str | None, what: str, where: str) -> list[str | None]:
    """The cells of a column, none of them empty; all None if there is no such column."""
    if column not in frame.columns:
        return [None] * len(frame)
    cells = frame[column].fill_null("").str.strip_chars().to_list()
    if "" in cells:
        raise ImageError(f"{where}: row {cells.index('') + 1} has no {what}; expected one")
    return cells


def _typed(labels: Sequence[str | None], where: str) -> list[Label]:
    """Labels as integers if all are integers, else as text; all None stay None."""
    texts = [label for label in labels if label is not None]
    try:
        return parse_labels(texts, where=where).tolist() if texts else list(labels)
    except TableError as error:
        raise ImageError(str(error)) from None
