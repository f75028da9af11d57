"""Images that are files, with a label each: what all readers but Parquet's end in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from safle.data.images.files import Files, Member
from safle.data.images.sources import Label, Record, describe, listing_digest
from safle.errors import ImageError, TableError


class FileImages:
    """Images that are files, with a label each."""

    def __init__(
        self,
        files: Files,
        members: Sequence[Member],
        labels: Sequence[Label],
        kind: str,
        split: str | None,
    ) -> None:
        self._files = files
        self._members = members
        self._labels = labels
        self.description = describe(kind, split, labels)

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


@contextmanager
def as_image_error() -> Iterator[None]:
    """What the readers of tables find wrong is here wrong with images."""
    try:
        yield
    except TableError as error:
        raise ImageError(str(error)) from None
