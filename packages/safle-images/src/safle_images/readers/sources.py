"""One image with its name and label, what a source of them promises, and what was asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError
from safle.tables.common import LABEL_COLUMN, choose_split, refuse_options

Label = str | int | None
"""A class, or None where the source does not know it."""
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


class ImageSource(Protocol):
    """Images in an order that never changes, read as they are asked for.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from safle_images.readers import open_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         Path(folder, name).mkdir()
    ...         _ = Path(folder, name, "1.png").write_bytes(b"not read yet")
    ...     [(record.name, record.label) for record in open_images(folder).records()]
    [('cat/1.png', 'cat'), ('dog/1.png', 'dog')]
    """

    @property
    def description(self) -> str:
        """What was recognised, for a person: kind, images, classes."""
        ...

    def __len__(self) -> int:
        """Number of images."""
        ...

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the listing: names, labels and sizes, not pixels."""
        ...

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        ...


@dataclass(frozen=True)
class Selection:
    """The options of :func:`safle_images.readers.open_images`."""

    split: str | None = None
    labels: Path | None = None
    label_column: str = LABEL_COLUMN
    image_column: str | None = None
    most_bytes: int = MOST_BYTES

    def refuse(self, where: object, kind: str, *options: str) -> None:
        """Raise if one of ``options``, which this kind of source has no use for, was given."""
        refuse_options(where, kind, self, *options, error=ImageError)

    def choose_split(self, where: object, available: Iterable[str | None]) -> str | None:
        """The split to read; None if there are none."""
        return choose_split(where, self.split, available, ImageError)


def describe(kind: str, split: str | None, labels: Iterable[Label]) -> str:
    """A source's description: its kind, how many images and how many classes."""
    found = list(labels)
    classes = len({label for label in found if label is not None})
    return (
        f"{kind}{'' if split is None else f', split {split}'}: {counted(len(found), 'image')}, "
        f"{counted(classes, 'class', 'classes') if classes else 'no labels'}"
    )


def listing_digest(rows: Iterable[tuple[object, ...]]) -> str:
    """SHA-256, in hexadecimal, of rows of strings, integers and None."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row).encode() + b"\n")
    return digest.hexdigest()


def counted(number: int, thing: str, plural: str | None = None) -> str:
    """``1 image``, ``2 images``, ``3 classes``."""
    return f"{number} {thing if number == 1 else plural or thing + 's'}"
