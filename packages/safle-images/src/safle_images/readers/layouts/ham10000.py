"""HAM10000 as its authors ship it: a list of diagnoses, and two folders of images.

``HAM10000_metadata.csv`` names images without folder and suffix; the class is ``dx``.
"""

from __future__ import annotations

from safle_images.readers.files import Files, Member
from safle_images.readers.layouts.lists import open_list
from safle_images.readers.sources import LABEL_COLUMN, ImageSource, Selection

EXPECTED = "HAM10000_metadata (.csv)"
_LISTS = tuple(f"HAM10000_metadata{suffix}" for suffix in ("", ".csv", ".tab", ".tsv"))


def recognises(files: Files) -> bool:
    """Whether its list is there."""
    return bool(files.named(*_LISTS))


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images in the order of the list."""
    listing: Member = files.named(*_LISTS)[0]
    column = "dx" if selection.label_column == LABEL_COLUMN else selection.label_column
    kind = f"HAM10000, column {column}" if column else "HAM10000"
    return open_list(files, listing, selection, kind, label="dx")
