"""Names of images -> splits and classes: ``data/train/cat/1.jpg`` is a cat to train with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from safle.data.images.records import counted
from safle.errors import ImageError

_SPLITS = frozenset(
    ["dev", "eval", "test", "testing", "train", "training", "val", "valid", "validation"]
)


class Arrangement(NamedTuple):
    """Where in a path its class stands, and whether a split stands before it.

    Attributes
    ----------
    level : how many leading folders all images have in common and mean nothing
    has_splits : the folders at ``level`` are splits, and classes stand below them
    """

    level: int
    has_splits: bool

    def split(self, name: str) -> str | None:
        """The split that an image belongs to."""
        return name.split("/", self.level + 1)[self.level] if self.has_splits else None

    def label(self, name: str) -> str | None:
        """The class that an image belongs to; None if no folder names one."""
        at = self.level + self.has_splits
        parts = name.split("/", at + 1)
        return parts[at] if len(parts) > at + 1 else None


def arrange(names: Sequence[str]) -> Arrangement:
    """Find the splits and classes of images by their names.

    A folder that holds everything is passed over, unless it is called like a
    split or images lie directly in it: then it is the only class.
    """
    level = 0
    while True:
        tops, least_folders = _tops(names, level)
        if least_folders == 0:
            return Arrangement(level, has_splits=False)
        if all(top.lower() in _SPLITS for top in tops):
            return Arrangement(level, has_splits=True)
        if len(tops) > 1 or least_folders == 1:
            return Arrangement(level, has_splits=False)
        level += 1


def _tops(names: Iterable[str], level: int) -> tuple[set[str], int]:
    """The folders at ``level``, and how many there are above every image from there on."""
    tops, least = set(), 2
    for name in names:
        parts = name.split("/", level + 2)
        tops.add(parts[level])
        least = min(least, len(parts) - level - 1)
    return tops, least


def folder_labels(
    arrangement: Arrangement, names: Sequence[str], where: object
) -> list[str | None]:
    """The class of each image: all have one, or none has."""
    labels = [arrangement.label(name) for name in names]
    bare = [name for name, label in zip(names, labels, strict=True) if label is None]
    if bare and len(bare) < len(names):
        raise ImageError(
            f"{where}: {counted(len(bare), 'image')} of {len(names)} in no class folder, such as "
            f"{bare[0]}; expected every image in a folder named after its class: move or remove "
            f"{'it' if len(bare) == 1 else 'them'}"
        )
    return labels
