"""One image with its name and label, a source of images, and the options of its reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle import choose_split
from safle.basics import name_some
from safle.errors import ImageError

Label = str | int | None
"""A class, or None where the source does not know it."""
LABEL_COLUMN = "label"
NAME_THE_COLUMN = "name the column with --image-column NAME (image_column= in Python)"
MOST_BYTES = 256 * 2**20
"""Largest file of an image; no photograph is larger."""


@dataclass(frozen=True, eq=False)
class Record:
    """One image.

    Attributes
    ----------
    name : stable, and unique within its source: the path inside it
    label : the class's name or number, or None
    data : an encoded file, or uint8 pixels (height, width, 3)

    Examples
    --------
    >>> Record("cat/1.png", "cat", b"").label
    'cat'
    """

    name: str
    label: Label
    data: bytes | NDArray[np.uint8]


class Unreadable(bytes):
    """Empty bytes in place of a file that could not be read, with the reason.

    One unreadable file does not end a run over a million: :func:`safle_images.readers.decode`
    raises ``reason`` as it does for any broken image.

    >>> Unreadable("no permission").reason
    'no permission'
    """

    reason: str

    def __new__(cls, reason: str) -> Unreadable:
        """Empty bytes that carry ``reason``."""
        empty = super().__new__(cls)
        empty.reason = reason
        return empty


@dataclass(frozen=True, eq=False)
class ImageSource:
    """Images in a fixed order, each read when it is needed.

    Attributes
    ----------
    kind : kind of source, in words
    split : name of the split, or None
    names, labels : of all images
    stored : further facts for the digest, such as sizes of files
    read : start -> the bytes or pixels of all images from that one on, or `Unreadable` instead

    Examples
    --------
    >>> two = ImageSource("toys", None, ["a.png", "b.png"], ["cat", "dog"], [],
    ...                   lambda start: iter([b"...", b"..."][start:]))
    >>> two.description
    'toys: 2 images, 2 classes'
    >>> [(record.name, record.label) for record in two.records(1)]
    [('b.png', 'dog')]
    """

    kind: str
    split: str | None
    names: Sequence[str]
    labels: Sequence[Label]
    stored: Sequence[object]
    read: Callable[[int], Iterator[bytes | NDArray[np.uint8]]]

    @property
    def description(self) -> str:
        """Kind, split, number of images and of classes, in words."""
        classes = len({label for label in self.labels if label is not None})
        images = "image" if self.split is None else f"{self.split} image"
        known = counted(classes, "class", "classes") if classes else "no labels"
        return f"{self.kind}: {counted(len(self), images)}, {known}"

    def __len__(self) -> int:
        return len(self.names)

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of names, labels and sizes, not of pixels."""
        digest = hashlib.sha256()
        for row in (*zip(self.names, self.labels, strict=True), self.split, *self.stored):
            digest.update(json.dumps(row).encode() + b"\n")
        return digest.hexdigest()

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        rows = zip(self.names[start:], self.labels[start:], self.read(start), strict=True)
        for name, label, data in rows:
            yield Record(name, label, data)


@dataclass(frozen=True)
class Selection:
    """The options of :func:`safle_images.readers.open_images`."""

    split: str | None = None
    label_column: str = LABEL_COLUMN
    image_column: str | None = None
    layout: str | None = None

    def refuse(self, where: object, kind: str, option: str) -> None:
        """Raise if ``option``, which does not apply to this kind of source, was given."""
        value = getattr(self, option)
        if value != getattr(Selection, option):
            raise ImageError(
                f"{where}: {option}={str(value)!r} does not apply to {kind}; leave it out"
            )

    def choose_split(self, where: object, available: Iterable[str | None]) -> str | None:
        """The split to read; None if the source has no splits."""
        return choose_split(where, self.split, available, ImageError)

    def image_of(self, where: object, columns: Iterable[str], usual: Sequence[str]) -> str:
        """The column of images: the chosen one, or the first of the ``usual`` ones."""
        names = (self.image_column,) if self.image_column else tuple(dict.fromkeys(usual))
        found = next((name for name in names if name in columns), None)
        if found is None:
            raise ImageError(
                f"{where}: has the columns {name_some(columns)}; expected encoded images, or their "
                f"paths, in {name_some(names)}: {NAME_THE_COLUMN}"
            )
        return found

    def label_of(
        self, where: object, columns: Sequence[str], likely: Sequence[str] = ()
    ) -> str | None:
        """The column of labels; None if ``label_column`` is '' or ``columns`` is empty.

        ``columns`` are all but that of the images, ``likely`` those that declare classes.
        """
        name = self.label_column
        if name in columns or name == "" or (not columns and name == LABEL_COLUMN):
            return name if name in columns else None
        if name == LABEL_COLUMN and len(likely) == 1:
            return likely[0]
        raise ImageError(
            f"{where}: no column {name!r} but "
            f"{name_some((name == LABEL_COLUMN and likely) or columns)}; name the column of "
            "labels with --label-column NAME (label_column= in Python); NAME is empty if there are "
            "no labels"
        )


def counted(number: int, thing: str, plural: str | None = None) -> str:
    """``1 image``, ``2 images``, ``3 classes``."""
    return f"{number:,} {thing if number == 1 else plural or thing + 's'}"
