"""Skin lesions as their authors ship them: HAM10000, and ISIC 2018 and 2019.

Both lists name images without folder and suffix. ``HAM10000_metadata.csv`` has the class in ``dx``,
``ISIC_2019_Training_GroundTruth.csv`` a column of 0 and 1 for each diagnosis.
"""

import re

import polars as pl

from safle.errors import ImageError
from safle_images.readers.archives import Member
from safle_images.readers.files import Files
from safle_images.readers.layouts.lists import open_frame, read_frame
from safle_images.readers.sources import LABEL_COLUMN, ImageSource, Selection

EXPECTED = "HAM10000_metadata.csv or ISIC_2019_Training_GroundTruth.csv"
_HAM10000 = re.compile(r"(HAM10000)_metadata(?:\.csv|\.tab|\.tsv)?")
_ISIC = re.compile(r"(ISIC_?\d{4})_(?:Task3_)?(Training|Validation|Test)_GroundTruth\.csv")
_CLASSES = ("MEL", "NV", "BCC", "AK", "AKIEC", "BKL", "DF", "VASC", "SCC", "UNK")


def recognises(files: Files) -> bool:
    """Whether one of the lists is there."""
    return bool(_lists(files, _HAM10000) or _lists(files, _ISIC))


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images in the order of the list."""
    found = _lists(files, _HAM10000)
    if found:
        frame = read_frame(files, found[0][0])
        column = "dx" if selection.label_column == LABEL_COLUMN else selection.label_column
        kind = f"HAM10000, column {column}" if column else "HAM10000"
        return open_frame(files, found[0][0], frame, selection, kind, label="dx")
    lists = {match[2].lower(): (match[1], member) for member, match in _lists(files, _ISIC)}
    split = selection.choose_split(files.path, lists)
    title, listing = lists[str(split)]
    diagnoses = _diagnoses(read_frame(files, listing), f"{files.path}: {listing.name}")
    kind = f"{title.replace('_', ' ')}, diagnoses"
    return open_frame(files, listing, diagnoses, selection, kind, label="diagnosis", split=split)


def _lists(files: Files, pattern: re.Pattern[str]) -> list[tuple[Member, re.Match[str]]]:
    found = ((member, pattern.fullmatch(member.base)) for member in files.members)
    return [(member, match) for member, match in found if match]


def _diagnoses(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """The names of the images, and the one column of each row that holds 1."""
    classes = [name for name in _CLASSES if name in frame.columns]
    labels = []
    for at, cells in enumerate(frame.select(classes).rows(), 1):
        marked = [name for name, cell in zip(classes, cells, strict=True) if cell in ("1", "1.0")]
        if len(marked) != 1 or not {*cells} <= {"0", "0.0", "1", "1.0"}:
            raise ImageError(
                f"{where}: row {at} has {len(marked)} diagnoses; expected one 1, and else 0, in "
                f"the columns {', '.join(classes)}"
            )
        labels += marked
    return frame.drop(classes).with_columns(pl.Series("diagnosis", labels))
