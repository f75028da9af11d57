"""Folders of images, one a class, with or without splits; also Tiny-ImageNet's layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from safle.data.images.arrangement import arrange, folder_labels
from safle.data.images.delimited import read_label_file
from safle.data.images.files import SUFFIXES, Files, Member, is_image
from safle.data.images.records import Label, Record, counted, listed, listing_digest
from safle.data.images.selection import Selection
from safle.errors import ImageError

_ANNOTATIONS = "val_annotations.txt"


class FileImages:
    """Images that are files, with a label each."""

    def __init__(
        self, files: Files, members: Sequence[Member], labels: Sequence[Label], kind: str
    ) -> None:
        self._files = files
        self._members = members
        self._labels = labels
        classes = len({label for label in labels if label is not None})
        self.description = (
            f"{kind}: {counted(len(members), 'image')}, "
            f"{counted(classes, 'class', 'classes') if classes else 'no labels'}"
        )

    def __len__(self) -> int:
        return len(self._members)

    def digest(self) -> str:
        """SHA-256 of all names, labels and sizes."""
        pairs = zip(self._members, self._labels, strict=True)
        return listing_digest((member.name, label, member.size) for member, label in pairs)

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        wanted = self._members[start:]
        contents = self._files.contents(wanted)
        for member, label, data in zip(wanted, self._labels[start:], contents, strict=True):
            yield Record(member.name, label, data)


def open_class_folders(files: Files, selection: Selection) -> FileImages:
    """Images in class folders, wherever the folders are kept."""
    selection.refuse(files.path, "class folders", "image_column")
    if selection.labels is None:
        selection.refuse(files.path, "class folders", "label_column")
    members = [member for member in files.members if is_image(member.name)]
    if not members:
        raise _no_images(files)
    arrangement = arrange([member.name for member in members])
    splits = Counter(arrangement.split(member.name) for member in members)
    split = selection.choose_split(files.path, (name for name in splits if name is not None))
    members = [member for member in members if arrangement.split(member.name) == split]
    names = [member.name for member in members]
    kind = "class folders"
    if selection.labels is not None:
        labels: Sequence[Label] = read_label_file(selection.labels, names, selection)
        kind = "images with a file of labels"
    else:
        labels = folder_labels(arrangement, names, files.path)
        notes = [m for m in files.members if PurePosixPath(m.name).name == _ANNOTATIONS]
        if notes:
            kind, labels = "Tiny-ImageNet", _tiny_labels(files, notes[0], names, labels)
    split_note = f", split {split}" if split is not None else ""
    return FileImages(files, members, labels, f"{kind} in {files.path.name}{split_note}")


def _tiny_labels(
    files: Files, annotations: Member, names: list[str], labels: Sequence[Label]
) -> list[Label]:
    """Labels of Tiny-ImageNet: ``train`` has class folders, ``val`` a file, ``test`` none."""
    folder = annotations.name.removesuffix(_ANNOTATIONS) + "images/"
    named: dict[str, str] = {}
    for line in files.read(annotations).decode(errors="replace").splitlines():
        cells = line.split("\t")
        if len(cells) < 2:
            raise ImageError(
                f"{files.path}: {annotations.name} has a line {line!r}; expected an image's name, "
                "a tab and its class, as distributed"
            )
        named[folder + cells[0]] = cells[1]
    found: list[Label] = []
    for name, label in zip(names, labels, strict=True):
        if name.startswith(folder) and name not in named:
            raise ImageError(f"{files.path}: {name} is not in {annotations.name}; unpack it again")
        # The one folder of a split without classes, val or test.
        found.append(named.get(name) if label == "images" else label)
    return found


def _no_images(files: Files) -> ImageError:
    suffixes = Counter(PurePosixPath(member.name).suffix or "none" for member in files.members)
    found = (
        f"{counted(len(files.members), 'file')} ending in "
        f"{listed(name for name, _ in suffixes.most_common(5))}"
        if files.members
        else "no files"
    )
    return ImageError(
        f"{files.path}: {found}; expected images in class folders ({listed(sorted(SUFFIXES))}), "
        "CIFAR batches or .parquet files"
    )
