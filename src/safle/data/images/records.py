"""One image with its name and label, and what a source of them promises."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Label = str | int | None
"""A class, or None where the source does not know it."""


@dataclass(frozen=True, eq=False)
class Record:
    """One image.

    Attributes
    ----------
    name : stable, and unique within its source: the path inside it
    label : the class's name or number, or None
    data : an encoded file, or uint8 pixels (height, width, 3)
    """

    name: str
    label: Label
    data: bytes | NDArray[np.uint8]


class Unreadable(bytes):
    """Stands in for a file that could not be read: no bytes, and why.

    One such file does not end a run over a million: :func:`safle.data.images.decode`
    raises ``reason`` for it like for any broken image.
    """

    reason: str

    def __new__(cls, reason: str) -> Unreadable:
        """Empty bytes that carry ``reason``."""
        empty = super().__new__(cls)
        empty.reason = reason
        return empty

    def __reduce__(self) -> tuple[type[Unreadable], tuple[str]]:
        # The reason survives the way to another process.
        return Unreadable, (self.reason,)


class ImageSource(Protocol):
    """Images in an order that never changes, read as they are asked for."""

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


def listing_digest(rows: Iterable[tuple[object, ...]]) -> str:
    """SHA-256, in hexadecimal, of rows of strings, integers and None."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def counted(number: int, thing: str, plural: str | None = None) -> str:
    """``1 image``, ``2 images``, ``3 classes``."""
    return f"{number} {thing if number == 1 else plural or thing + 's'}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names separated by commas, the first ``most`` of them."""
    known = list(names)
    return ", ".join(known[:most]) + (", ..." if len(known) > most else "")
