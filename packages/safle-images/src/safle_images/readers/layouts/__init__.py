"""Layouts: what data sets look like as their authors ship them; one module each.

A new one is a module with what `Layout` lists, a row of `LAYOUTS`, a line in ``docs/backbones.md``,
and a test in the exact format.
"""

from collections import Counter
from pathlib import PurePosixPath
from typing import Protocol

from safle.basics import name_some
from safle.errors import ImageError
from safle_images.readers.archives import SUFFIXES
from safle_images.readers.files import Files
from safle_images.readers.layouts import (
    cifar,
    folders,
    hub,
    lesions,
    lists,
    medmnist,
    tiny_imagenet,
    webdataset,
)
from safle_images.readers.sources import ImageSource, Selection, counted


class Layout(Protocol):
    """A module that reads one layout.

    Attributes
    ----------
    EXPECTED : what it is recognised by, in words
    """

    EXPECTED: str

    def recognises(self, files: Files) -> bool:
        """Whether the files look like this layout, by their names alone."""

    def open_source(self, files: Files, selection: Selection) -> ImageSource:
        """The images and labels of a split; ``kind`` says what they were taken for."""


LAYOUTS: dict[str, Layout] = {
    "cifar": cifar,
    "tiny-imagenet": tiny_imagenet,
    "lesions": lesions,
    "medmnist": medmnist,
    "list": lists,
    "datasets": hub,
    "webdataset": webdataset,
    "folders": folders,
}
"""The first that recognises the files reads them; the least specific come last."""


def find_layout(files: Files, name: str | None) -> Layout:
    """The layout with this name, or the first that recognises the files."""
    if name is not None and name not in LAYOUTS:
        raise ImageError(f"no layout {name!r}; expected one of {', '.join(LAYOUTS)}")
    for layout in LAYOUTS.values() if name is None else [LAYOUTS[name]]:
        if layout.recognises(files):
            return layout
    if files.kind == "file" and name is None:
        raise ImageError(
            f"{files.path}: unknown file type; expected a folder, .zip, .tar, .tar.gz, .csv, .npz, "
            ".parquet or hf:NAME"
        )
    expected = f"images in class folders ({', '.join(sorted(SUFFIXES))}), or another layout"
    if name is not None:
        expected = f"{LAYOUTS[name].EXPECTED} (--layout {name})"
    common = Counter(PurePosixPath(member.name).suffix or "none" for member in files.members)
    suffixes = name_some(suffix for suffix, _ in common.most_common(5))
    found = f"{counted(len(files.members), 'file')} ending in {suffixes}"
    raise ImageError(f"{files.path}: {found if files.members else 'no files'}; expected {expected}")
