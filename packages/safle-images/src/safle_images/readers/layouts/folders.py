"""Image files, labelled by their folders.

``data/train/cat/1.jpg`` is a cat to train with, in a folder on disk and in an archive alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from safle.basics import name_some
from safle.errors import ImageError
from safle_images.readers.files import Files
from safle_images.readers.sources import ImageSource, Label, Selection, counted

EXPECTED = "images in folders named after their classes"
SPLITS = frozenset(
    ["dev", "eval", "test", "testing", "train", "training", "val", "valid", "validation"]
)
_PART = re.compile(
    r"(.*[ _-])?(images?|imgs?|pictures?|photos?|jpe?gs?|pngs?|masks?|data|dataset|input|inputs|"
    r"(part|shard|chunk|fold|batch|split|folder|archive|partition)[ _-]?\d+)",
    re.IGNORECASE,
)
"""Names of folders that are parts of an archive, and not classes."""


def recognises(files: Files) -> bool:
    """Whether there are images."""
    return files.kind != "file" and bool(files.images)


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images of a split, in the order of the files."""
    selection.refuse(files.path, "files of images", "image_column")
    arrangement = arrange([member.name for member in files.images])
    split = selection.choose_split(files.path, (arrangement.split(m.name) for m in files.images))
    members = [member for member in files.images if arrangement.split(member.name) == split]
    names = [member.name for member in members]
    labels: list[Label] = [None] * len(names)
    kind = "images"
    if selection.label_column != "":
        selection.refuse(files.path, "class folders", "label_column")
        labels = _folder_labels(arrangement, names, files)
        kind = "images" if None in labels else "class folders"
        check_folders(files.path, labels, selection)
    return files.source(f"{kind} in {files.path.name}", split, members, labels)


def check_folders(where: object, labels: Iterable[Label], selection: Selection) -> None:
    """Refuse folders that are hardly classes, unless the user insists."""
    classes = sorted({str(label) for label in labels if label is not None})
    parts = [name for name in classes if _is_part(name)]
    if selection.layout is not None or not (parts or len(classes) == 1):
        return
    found = f"only the class {classes[0]!r}"
    if parts:
        found = f"classes that look like parts of an archive: {name_some(parts)}"
    raise ImageError(
        f"{where}: the folders give {found}; expected folders named after two classes or more. If "
        "another layout fits, give the folder or archive that its list lies in (HAM10000's "
        "metadata, ISIC's ground truth, Tiny-ImageNet's val_annotations.txt), or a .csv file of "
        "paths and labels; if they are the classes: --layout folders; without labels: "
        '--label-column ""'
    )


def _is_part(name: str) -> bool:
    # A train can be a class, too, among others.
    return bool(_PART.fullmatch(name)) or name.lower() in SPLITS - {"train"}


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
        if folders and all(top.lower() in SPLITS for top in tops):
            return Arrangement(level, has_splits=True)
        if folders < 2 or len(tops) > 1:
            return Arrangement(level, has_splits=False)
        level += 1


def _folder_labels(arrangement: Arrangement, names: Sequence[str], files: Files) -> list[Label]:
    """The class of each image; None for all if no image is in a class folder."""
    labels: list[Label] = [arrangement.label(name) for name in names]
    bare = [name for name, label in zip(names, labels, strict=True) if label is None]
    if bare and len(bare) < len(names):
        raise ImageError(
            f"{files.path}: {counted(len(bare), 'image')} of {len(names)} not in a class folder, "
            f"such as {bare[0]}; expected every image in a folder named after its class: move or "
            f"remove {'it' if len(bare) == 1 else 'them'}"
        )
    return labels
