"""ISIC 2018 and 2019 as their authors ship them: a column of 0 and 1 for each diagnosis.

``ISIC_2019_Training_GroundTruth.csv`` names images without suffix, in
``ISIC_2019_Training_Input``. Training and test are splits. Columns such as ``score_weight`` are no
diagnoses.
"""

from __future__ import annotations

import re

import polars as pl

from safle.errors import ImageError
from safle_images.readers.files import Files, Member
from safle_images.readers.layouts.lists import find_images, read_frame
from safle_images.readers.sources import ImageSource, Label, Selection

EXPECTED = "ISIC_2019_Training_GroundTruth.csv"
_LIST = re.compile(r"ISIC_?(\d{4})_(?:Task3_)?(Training|Validation|Test)_GroundTruth\.csv")
_CLASSES = ("MEL", "NV", "BCC", "AK", "AKIEC", "BKL", "DF", "VASC", "SCC", "UNK")


def recognises(files: Files) -> bool:
    """Whether one of its lists is there."""
    return bool(_lists(files))


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images in the order of the list."""
    lists = _lists(files)
    selection.refuse(files.path, "ISIC", "image_column")
    split = selection.choose_split(files.path, lists)
    year, listing = lists[str(split)]
    frame = read_frame(files, listing)
    where = f"{files.path}: {listing.name}"
    if "image" not in frame.columns:
        raise ImageError(f"{where}: has no column 'image'; expected the names of the images")
    labels: list[Label] = [None] * len(frame)
    if selection.label_column != "":
        selection.refuse(files.path, "ISIC", "label_column")
        labels = _diagnoses(frame, where)
    names = enumerate(frame["image"].fill_null("").to_list(), 1)
    members = find_images(files, [*names], where)
    return files.source(f"ISIC {year}, diagnoses", split, members, labels)


def _lists(files: Files) -> dict[str, tuple[str, Member]]:
    """Name of a split -> its year and list."""
    found = {}
    for member in files.members:
        match = _LIST.fullmatch(member.base)
        if match:
            found[match[2].lower()] = (match[1], member)
    return found


def _diagnoses(frame: pl.DataFrame, where: str) -> list[Label]:
    classes = [name for name in _CLASSES if name in frame.columns]
    labels: list[Label] = []
    for at, cells in enumerate(frame.select(classes).rows(), 1):
        marked = [name for name, cell in zip(classes, cells, strict=True) if _is_one(cell)]
        if len(marked) != 1:
            raise ImageError(
                f"{where}: row {at} has {len(marked)} diagnoses; expected 1 in one of the columns "
                f"{', '.join(classes)}, and 0 in the others"
            )
        labels += marked
    return labels


def _is_one(cell: str | None) -> bool:
    return cell is not None and cell.strip() in ("1", "1.0")
