"""Image files, labelled by their folders or by a CSV file.

``data/train/cat/1.jpg`` is a cat to train with, in a folder on disk and in a zip alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import polars as pl

from safle.basics import name_some
from safle.errors import ImageError, TableError
from safle.tables import parse_labels
from safle_images.readers.files import SUFFIXES, Files, Member, is_image, path_inside, plain_name
from safle_images.readers.hub import open_dataset
from safle_images.readers.sources import ImageSource, Label, Selection, counted

IMAGE_COLUMNS = ("path", "image", "image_path", "file", "filename", "file_name", "filepath", "id")
_SPLITS = frozenset(
    ["dev", "eval", "test", "testing", "train", "training", "val", "valid", "validation"]
)


def _source(
    kind: str, split: str | None, files: Files, members: Sequence[Member], labels: Sequence[Label]
) -> ImageSource:
    names, sizes = [member.name for member in members], [member.size for member in members]
    return ImageSource(
        kind, split, names, labels, sizes, lambda start: files.contents(members[start:])
    )


def open_folders(path: Path, selection: Selection) -> ImageSource:
    """Images in class folders, in a folder or a zip."""
    files = Files(path, most_bytes=selection.most_bytes)
    members = [member for member in files.members if is_image(member.name)]
    if not members and path.is_dir() and any(m.name.endswith(".parquet") for m in files.members):
        return open_dataset(str(path), selection)
    selection.refuse(path, "files of images", "image_column")
    if not members:
        suffixes = Counter(PurePosixPath(member.name).suffix or "none" for member in files.members)
        common = name_some(name for name, _ in suffixes.most_common(5))
        found = f"{counted(len(files.members), 'file')} ending in {common}"
        raise ImageError(
            f"{path}: {found if files.members else 'no files'}; expected images in class folders "
            f"({', '.join(sorted(SUFFIXES))}) or .parquet files"
        )
    arrangement = arrange([member.name for member in members])
    split = selection.choose_split(path, (arrangement.split(m.name) for m in members))
    members = [member for member in members if arrangement.split(member.name) == split]
    names = [member.name for member in members]
    labels: list[Label] = [None] * len(names)
    kind = "images"
    if selection.label_column != "":
        selection.refuse(path, "class folders", "label_column")
        labels, kind = _folder_labels(arrangement, names, path), "class folders"
    return _source(f"{kind} in {path.name}", split, files, members, labels)


class Arrangement(NamedTuple):
    """Which folder of a path names the class, and whether the folder above names a split.

    Attributes
    ----------
    level : number of leading folders that hold all images and are ignored
    has_splits : whether the folders at ``level`` are splits, with class folders in them
    """

    level: int
    has_splits: bool

    def split(self, name: str) -> str | None:
        """The split that an image belongs to."""
        return name.split("/", self.level + 1)[self.level] if self.has_splits else None

    def label(self, name: str) -> str | None:
        """The class that an image belongs to; None if no folder names one."""
        level = self.level + self.has_splits
        parts = name.split("/", level + 1)
        return parts[level] if len(parts) > level + 1 else None


def arrange(names: Sequence[str]) -> Arrangement:
    """Find the splits and classes of images by their names.

    A folder that holds all images is ignored, unless it is named like a split, or images lie
    directly in it: then it is the only class.
    """
    level = 0
    while True:
        parts = [name.split("/", level + 2)[level:] for name in names]
        tops, folders = {part[0] for part in parts}, min(map(len, parts)) - 1
        if folders and all(top.lower() in _SPLITS for top in tops):
            return Arrangement(level, has_splits=True)
        if folders < 2 or len(tops) > 1:
            return Arrangement(level, has_splits=False)
        level += 1


def _folder_labels(arrangement: Arrangement, names: Sequence[str], where: Path) -> list[Label]:
    """The class of each image; None for all if no image is in a class folder."""
    labels: list[Label] = [arrangement.label(name) for name in names]
    bare = [name for name, label in zip(names, labels, strict=True) if label is None]
    if bare and len(bare) < len(names):
        raise ImageError(
            f"{where}: {counted(len(bare), 'image')} of {len(names)} not in a class folder, such "
            f"as {bare[0]}; expected every image in a folder named after its class: move or remove "
            f"{'it' if len(bare) == 1 else 'them'}"
        )
    return labels


def open_list(path: Path, selection: Selection) -> ImageSource:
    """The images that a CSV file lists, in its order; every file must exist."""
    rows = _read_rows(path, selection)
    split = selection.choose_split(path, (row.split for row in rows))
    rows = [row for row in rows if row.split == split]
    members = [_listed_member(path, row) for row in rows]
    files = Files(path.parent, most_bytes=selection.most_bytes, members=members)
    labels = _typed([row.label for row in rows], path)
    return _source(f"files listed in {path.name}", split, files, members, labels)


def _listed_member(path: Path, row: _Row) -> Member:
    place = path_inside(path.parent, row.image)
    root = path.parent.resolve()
    if place is None:
        raise ImageError(
            f"{path}: row {row.number} names {row.image!r}, which is not below {root}; move the "
            "list to a folder above all images"
        )
    if not place.is_file():
        raise ImageError(
            f"{path}: row {row.number} names {place}, which does not exist or is not a regular "
            f"file; paths are relative to {root}"
        )
    return Member(plain_name(row.image), place.stat().st_size, str(place))


class _Row(NamedTuple):
    number: int
    image: str
    label: str | None
    split: str | None


def _read_rows(path: Path, selection: Selection) -> list[_Row]:
    """All rows of a CSV file, each with a path and, if the file has the column, a label."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = max(",;\t", key=file.readline().count)
        # Cells stay text: a class may be called NA, or 007.
        frame = pl.read_csv(path, infer_schema=False, separator=separator, glob=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        raise ImageError(
            f"{path}: not a .csv file; expected UTF-8 text, a header and rows of as many cells"
        ) from None
    if not len(frame):
        raise ImageError(f"{path}: has no rows below its header; expected one row per image")
    image = selection.image_of(path, frame.columns, IMAGE_COLUMNS)
    others = [name for name in frame.columns if name not in (image, "split")]
    label = selection.label_of(path, others)
    split = "split" if "split" in frame.columns else None
    columns = []
    for what, column in (("path", image), ("label", label), ("split", split)):
        cells: list[str | None] = [None] * len(frame)
        if column is not None:
            cells = frame[column].fill_null("").str.strip_chars().to_list()
        if "" in cells:
            raise ImageError(f"{path}: row {cells.index('') + 1} has no {what}; expected one")
        columns.append(cells)
    rows = enumerate(zip(*columns, strict=True), 1)
    return [_Row(number, str(name), label, split) for number, (name, label, split) in rows]


def _typed(labels: Sequence[str | None], where: Path) -> list[Label]:
    """Labels as integers if all are integers, else as text; all None stay None."""
    texts = [label for label in labels if label is not None]
    try:
        return parse_labels(texts, where=str(where)).tolist() if texts else list(labels)
    except TableError as error:
        raise ImageError(str(error)) from None
