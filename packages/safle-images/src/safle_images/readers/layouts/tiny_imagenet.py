"""Tiny-ImageNet as its authors ship it: classes to train with, a list of those to validate.

``train/n01443537/images/n01443537_0.JPEG`` and ``val/images/val_0.JPEG`` with
``val/val_annotations.txt``; the images of ``test/`` have no labels. Labels are the numbers of
WordNet, as in ``wnids.txt``: names of ``words.txt`` may be long, and need not differ.
"""

from __future__ import annotations

from safle.errors import ImageError
from safle_images.readers.files import Files
from safle_images.readers.sources import ImageSource, Label, Selection

EXPECTED = "wnids.txt or val_annotations.txt"
_LIST = "val_annotations.txt"


def recognises(files: Files) -> bool:
    """Whether its lists of classes or of validation images are there."""
    return bool(files.images) and bool(files.named("wnids.txt", _LIST))


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images of a split, sorted by name."""
    selection.refuse(files.path, "Tiny-ImageNet", "image_column")
    listed: dict[str, str] = {}
    for member in files.named(_LIST):
        cells = (line.split("\t") for line in files.lines(member))
        listed |= {f"{member.folder}images/{row[0]}": row[1] for row in cells if len(row) > 1}
    placed = [(image, *_place(image.name, listed)) for image in files.images]
    split = selection.choose_split(files.path, (split for _, split, _ in placed))
    chosen = [(image, label) for image, place, label in placed if place == split]
    known = {line.strip() for member in files.named("wnids.txt") for line in files.lines(member)}
    for image, label in chosen if split != "test" else ():
        if label is None or (known and label not in known):
            raise ImageError(
                f"{files.path}: {image.name} has the class {label!r}; expected one of wnids.txt, "
                f"from its folder or from {_LIST}"
            )
    labels: list[Label] = [label for _, label in chosen]
    if selection.label_column == "":
        labels = [None] * len(chosen)
    else:
        selection.refuse(files.path, "Tiny-ImageNet", "label_column")
    kind = "Tiny-ImageNet, numbers of WordNet"
    return files.source(kind, split, [image for image, _ in chosen], labels)


def _place(name: str, listed: dict[str, str]) -> tuple[str, str | None]:
    """Split and class of an image, by its folders and the list."""
    folders = name.split("/")[:-1]
    if folders and folders[-1] == "images":
        folders.pop()
    if name in listed:
        return "val", listed[name]
    if not folders or folders[-1] in ("train", "val", "test"):
        return (folders[-1] if folders else "val"), None
    return (folders[-2] if len(folders) > 1 else "train"), folders[-1]
