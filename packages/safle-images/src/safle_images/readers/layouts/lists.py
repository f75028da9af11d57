"""Images that a CSV file lists, and the layouts whose list has columns of its own.

A list names paths below its own folder, or files by their names alone, without folder and suffix.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePosixPath

import polars as pl

from safle import parse_labels
from safle.errors import ImageError, TableError
from safle_images.readers.archives import Member, is_image, path_inside, plain_name
from safle_images.readers.files import Files
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
    frame = read_frame(files, listing)
    return open_frame(files, listing, frame, selection, f"files listed in {files.path.name}")


def open_frame(
    files: Files,
    listing: Member,
    frame: pl.DataFrame,
    selection: Selection,
    kind: str,
    *,
    label: str | None = None,
    split: str | None = None,
) -> ImageSource:
    """The images of a list; ``label`` is the column of labels if the user names none."""
    where = _where(files, listing)
    image = selection.image_of(where, frame.columns, COLUMNS)
    others = [name for name in frame.columns if name not in (image, "split")]
    column = selection.label_of(where, others, [label] if label in others else [])
    names = _cells(frame, image, "path", where)
    labels = _cells(frame, column, "label", where)
    rows = [*range(len(frame))]
    if split is None:
        splits = _cells(frame, "split", "split", where)
        split = selection.choose_split(where, splits)
        rows = [at for at in rows if splits[at] == split]
    find = _Finder(files, where)
    members = [find(at + 1, str(names[at])) for at in rows]
    files.check(members)
    return files.source(kind, split, members, _typed([labels[at] for at in rows], where))


def read_frame(files: Files, listing: Member) -> pl.DataFrame:
    """All rows of a list, every cell as text: a class may be called NA, or 007."""
    data = files.read(listing)
    where = _where(files, listing)
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


def _where(files: Files, listing: Member) -> str:
    return str(files.path) if files.kind == "file" else f"{files.path}: {listing.name}"


class _Finder:
    """Finds the image of a row: by its path beside the list, or by its name without suffix."""

    def __init__(self, files: Files, where: str) -> None:
        self.files = files
        self.where = where
        self.folder = files.path.parent if files.kind == "file" else files.path

    def __call__(self, row: int, name: str) -> Member:
        found = None
        if self.files.kind == "file":
            place = path_inside(self.folder, name)
            if place is None:
                raise ImageError(
                    f"{self.where}: row {row} names {name!r}, which is not below "
                    f"{self.folder.resolve()}; move the list to a folder above all images"
                )
            if place.is_file():
                return Member(plain_name(name), place.stat().st_size, str(place))
        if not is_image(name):
            found = self.stems.get(plain_name(name))
        if found is None:
            raise ImageError(
                f"{self.where}: row {row} names {self.folder / name}, which does not exist or is "
                f"not a regular file; expected a path below {self.folder.resolve()}, or an image's "
                "name without suffix, in any folder there"
            )
        return found

    @cached_property
    def stems(self) -> dict[str, Member]:
        """Images by their names without folder and suffix."""
        around = Files(self.folder) if self.files.kind == "file" else self.files
        found: dict[str, Member] = {}
        for image in around.images:
            other = found.setdefault(PurePosixPath(image.name).stem, image)
            # Some copies of an archive hold a folder twice, in capitals and in small letters.
            if (other.name.casefold(), other.size) != (image.name.casefold(), image.size):
                raise ImageError(
                    f"{around.path}: has two images of one name, {other.name} and {image.name}; "
                    "expected one: remove the other"
                )
        return found


def _cells(frame: pl.DataFrame, column: str | None, what: str, where: str) -> list[str | None]:
    """The cells of a column, none of them empty; all None without such a column."""
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
