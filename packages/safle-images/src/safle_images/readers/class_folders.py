"""Folders of images, one per class: ``data/train/cat/1.jpg`` is a cat to train with.

The one reader of our own, for a folder on disk, a zip and a tar alike. Labels come from, in this
order: a CSV file (``labels=``), files beside the images as WebDataset has them (``1.cls``, or
a key in ``1.json``), Tiny-ImageNet's ``val_annotations.txt``, the folders' names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from safle.errors import ImageError
from safle.tables.common import LABEL_COLUMN, listed
from safle.tables.labels import parse_labels
from safle_images.readers.files import SUFFIXES, FileImages, Files, Member, as_image_error, is_image
from safle_images.readers.lists import read_label_file
from safle_images.readers.sources import Label, Selection, counted

_SPLITS = frozenset(
    ["dev", "eval", "test", "testing", "train", "training", "val", "valid", "validation"]
)
_ANNOTATIONS = "val_annotations.txt"


def open_class_folders(files: Files, selection: Selection) -> FileImages:
    """Images in class folders, wherever the folders are kept."""
    selection.refuse(files.path, "class folders", "image_column")
    members = [member for member in files.members if is_image(member.name)]
    if not members:
        suffixes = Counter(PurePosixPath(member.name).suffix or "none" for member in files.members)
        common = listed(name for name, _ in suffixes.most_common(5))
        found = f"{counted(len(files.members), 'file')} ending in {common}"
        raise ImageError(
            f"{files.path}: {found if files.members else 'no files'}; expected images in class "
            f"folders ({listed(sorted(SUFFIXES))}) or .parquet files"
        )
    arrangement = arrange([member.name for member in members])
    split = selection.choose_split(files.path, (arrangement.split(m.name) for m in members))
    members = [member for member in members if arrangement.split(member.name) == split]
    kind, labels = _find_labels(files, members, arrangement, selection)
    return FileImages(files, members, labels, f"{kind} in {files.path.name}", split)


def _find_labels(
    files: Files, members: Sequence[Member], arrangement: Arrangement, selection: Selection
) -> tuple[str, Sequence[Label]]:
    names = [member.name for member in members]
    if selection.labels is not None:
        return "images with a file of labels", read_label_file(selection.labels, names, selection)
    if selection.label_column == "":
        return "images", [None] * len(names)
    beside = _labels_beside(files, names, selection.label_column)
    if beside is not None:
        return "images with labels beside them", beside
    selection.refuse(files.path, "class folders", "label_column")
    folders = _folder_labels(arrangement, names, files.path)
    notes = next((m for m in files.members if PurePosixPath(m.name).name == _ANNOTATIONS), None)
    if notes is not None:
        return "Tiny-ImageNet", _tiny_labels(files, notes, names, folders)
    # One folder for all of a shard names no class, where something else may.
    if len({*folders}) < 2:
        _refuse_unread_labels(files, names)
    return "class folders", folders


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
        parts = [name.split("/", level + 2)[level:] for name in names]
        tops, folders = {part[0] for part in parts}, min(map(len, parts)) - 1
        if folders and all(top.lower() in _SPLITS for top in tops):
            return Arrangement(level, has_splits=True)
        if folders < 2 or len(tops) > 1:
            return Arrangement(level, has_splits=False)
        level += 1


def _folder_labels(
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


def _labels_beside(files: Files, names: Sequence[str], column: str) -> list[Label] | None:
    """Labels in a file beside each image: ``1.cls``, or a key of ``1.json``."""
    by_name = {member.name: member for member in files.members}
    stems = list(map(_stem, names))
    columns = ("cls", LABEL_COLUMN) if column == LABEL_COLUMN else (column,)
    for suffix, key in [*((name, None) for name in columns), *(("json", key) for key in columns)]:
        found = [by_name.get(f"{stem}.{suffix}") for stem in stems]
        first = next((member for member in found if member is not None), None)
        if first is None or (key is not None and key not in _keys(files, first)):
            continue
        missing = [name for name, member in zip(names, found, strict=True) if member is None]
        if missing:
            raise ImageError(
                f"{files.path}: no .{suffix} file beside {counted(len(missing), 'image')} of "
                f"{len(names)}, such as {missing[0]}; expected a label for every image"
            )
        # In the archive's own order, which need not be that of the images.
        wanted = set(found)
        beside = [member for member in files.members if member in wanted]
        pairs = zip(beside, files.texts(beside), strict=True)
        texts = {member: _label_text(files, member, text, key) for member, text in pairs}
        with as_image_error():
            labels: list[Label] = parse_labels(
                [texts[member] for member in found if member is not None], where=str(files.path)
            ).tolist()
        return labels
    return None


def _label_text(files: Files, member: Member, text: str, key: str | None) -> str:
    value = text.strip() if key is None else _json(files, member, text).get(key)
    if type(value) not in (str, int) or value == "":
        raise ImageError(
            f"{files.path}: {member.name} has the label {value!r}; expected one line of text or "
            "an integer"
        )
    return str(value)


def _keys(files: Files, member: Member) -> list[str]:
    return list(_json(files, member, next(iter(files.texts([member])))))


def _json(files: Files, member: Member, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{files.path}: {member.name} is not JSON ({error})") from None
    return content if isinstance(content, dict) else {}


def _refuse_unread_labels(files: Files, names: Sequence[str]) -> None:
    """Images without labels are fine, unless something beside them could be labels."""
    stems = set(map(_stem, names))
    others = [m for m in files.members if not is_image(m.name) and _stem(m.name) in stems]
    if not others:
        return
    suffixes = dict.fromkeys("." + member.name.rpartition(".")[2] for member in others)
    described = next((member for member in others if member.name.endswith(".json")), None)
    keys = "" if described is None else f" with the keys {listed(_keys(files, described))}"
    raise ImageError(
        f"{files.path}: has files beside its images, such as {others[0].name}, ending in "
        f"{listed(suffixes)}{keys}; say which suffix or key is the label with --label-column NAME "
        "(label_column= in Python), or that there is none with an empty NAME"
    )


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _tiny_labels(
    files: Files, annotations: Member, names: list[str], labels: Sequence[Label]
) -> list[Label]:
    """Labels of Tiny-ImageNet: ``train`` has class folders, ``val`` a file, ``test`` none."""
    folder = annotations.name.removesuffix(_ANNOTATIONS) + "images/"
    named: dict[str, str] = {}
    for line in next(iter(files.texts([annotations]))).splitlines():
        cells = line.split("\t")
        if len(cells) < 2:
            raise ImageError(
                f"{files.path}: {annotations.name} has a line {line!r}; expected an image's name, "
                "a tab and its class, as distributed"
            )
        named[folder + cells[0]] = cells[1]
    for name in names:
        if name.startswith(folder) and name not in named:
            raise ImageError(f"{files.path}: {name} is not in {annotations.name}; unpack it again")
    # The one folder of a split without classes, val or test, is called images.
    pairs = zip(names, labels, strict=True)
    return [named.get(name) if label == "images" else label for name, label in pairs]
