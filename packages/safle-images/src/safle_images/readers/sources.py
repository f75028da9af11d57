"""One image with its name and label, a source of them, and what was asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError
from safle.tables import choose_split, listed

Label = str | int | None
"""A class, or None where the source does not know it."""
LABEL_COLUMN = "label"
MOST_BYTES = 256 * 2**20
"""No photograph is larger."""


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
    """Stands in for a file that could not be read: no bytes, and why.

    One such file does not end a run over a million: :func:`safle_images.readers.decode`
    raises ``reason`` for it like for any broken image.

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
    """Images in an order that never changes, read as they are asked for.

    Attributes
    ----------
    kind : what was recognised, for a person
    split : which part of it, or None
    names, labels : of all images
    stored : what else tells these images from others: the sizes of files
    read : the bytes of all images from the ``start``-th on, or `Unreadable` in their place

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
    read: Callable[[int], Iterator[bytes]]

    @property
    def description(self) -> str:
        """What was recognised: kind, images, classes."""
        classes = len({label for label in self.labels if label is not None})
        split = "" if self.split is None else f", split {self.split}"
        known = counted(classes, "class", "classes") if classes else "no labels"
        return f"{self.kind}{split}: {counted(len(self), 'image')}, {known}"

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
    most_bytes: int = MOST_BYTES

    def refuse(self, where: object, kind: str, option: str) -> None:
        """Raise if ``option``, which this kind of source has no use for, was given."""
        value = getattr(self, option)
        if value != getattr(Selection, option):
            raise ImageError(
                f"{where}: {option}={str(value)!r} does not apply to {kind}; leave it out"
            )

    def choose_split(self, where: object, available: Iterable[str | None]) -> str | None:
        """The split to read; None if there are none."""
        return choose_split(where, self.split, available, ImageError)

    def label_of(
        self, where: object, columns: Sequence[str], likely: Sequence[str] = ()
    ) -> str | None:
        """The column of labels; None if nothing could be one, or '' was wanted.

        ``columns`` are all but the images', ``likely`` those that declare classes.
        """
        wanted = self.label_column
        if wanted in columns or wanted == "" or (not columns and wanted == LABEL_COLUMN):
            return wanted if wanted in columns else None
        if wanted == LABEL_COLUMN and len(likely) == 1:
            return likely[0]
        raise ImageError(
            f"{where}: no column {wanted!r} but {listed(likely or columns)}; say which is the "
            "label with --label-column NAME (label_column= in Python), or that there is none with "
            "an empty NAME"
        )


def counted(number: int, thing: str, plural: str | None = None) -> str:
    """``1 image``, ``2 images``, ``3 classes``."""
    return f"{number} {thing if number == 1 else plural or thing + 's'}"
