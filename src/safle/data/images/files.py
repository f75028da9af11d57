"""Files, whatever they are kept in: a folder, a zip or a tar, listed once and then streamed."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from safle.data.images.records import Unreadable
from safle.errors import ImageError

SUFFIXES = frozenset(
    [
        ".avif",
        ".bmp",
        ".dib",
        ".gif",
        ".j2k",
        ".jfif",
        ".jp2",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
    ]
)


_OUTSIDE = re.compile("/|[A-Za-z]:/")


class Member(NamedTuple):
    """One regular file: its name with forward slashes, its bytes, where its keeper finds it."""

    name: str
    size: int
    at: str | int


class Files(ABC):
    """Regular files under one path.

    Attributes
    ----------
    members
        In the order in which they are read; ``contents`` expects the same order.
    most_bytes
        What one member may have. Images are checked when they are listed, the
        few other files that anyone reads before they are read.
    """

    path: Path
    members: list[Member]
    most_bytes: int

    @abstractmethod
    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, or :class:`Unreadable` in its place."""

    def read(self, member: Member) -> bytes:
        """The bytes of one member that nothing can do without."""
        check_size(self.path, member, self.most_bytes)
        data = next(iter(self.contents([member])))
        if isinstance(data, Unreadable):
            raise ImageError(f"{self.path}: {member.name} {data.reason}")
        return data


def is_image(name: str) -> bool:
    """Whether a name ends like an image's."""
    dot = name.rfind(".")
    return dot >= 0 and name[dot:].lower() in SUFFIXES


def is_hidden(name: str) -> bool:
    """Whether a file was left by an operating system: ``.DS_Store``, ``__MACOSX/._1.jpg``."""
    return name.startswith((".", "__MACOSX/")) or "/." in name


def plain_name(raw: str) -> str:
    """A file's name as text that every machine agrees on.

    macOS decomposes letters with accents and others do not, and a class must have
    one name. Bytes that are not UTF-8 become escapes.
    """
    text = raw.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return unicodedata.normalize("NFC", text)


def archived_name(raw: str, *, archive: Path) -> str:
    """The name of an archive's member, refused if it leads out of the archive."""
    parts = [part for part in plain_name(raw).split("/") if part not in ("", ".")]
    if _OUTSIDE.match(raw) or ".." in parts:
        raise ImageError(
            f"{archive}: has a member called {raw!r}; expected names inside the archive: "
            "do not unpack it, and ask whoever made it for another"
        )
    return "/".join(parts)


def check_size(where: Path, member: Member, most: int) -> None:
    """Refuse a file by its declared size, before a byte of it is read."""
    if not 0 <= member.size <= most:
        raise ImageError(
            f"{where}: {member.name} has {member.size} bytes; expected at most {most}: remove it, "
            "or allow more with most_bytes= in Python"
        )


def check_members(where: Path, members: Sequence[Member], *, most_bytes: int) -> None:
    """Refuse images that are too large, and two members of one name."""
    seen: set[str] = set()
    for member in members:
        if is_image(member.name):
            check_size(where, member, most_bytes)
        if member.name in seen:
            raise ImageError(f"{where}: has {member.name} twice; expected every name once")
        seen.add(member.name)


def not_a_file(where: Path, name: str, hint: str) -> ImageError:
    """An image's name on a link, a pipe or a device."""
    return ImageError(f"{where}: {name} is not a regular file; {hint}")


def read_whole(file: IO[bytes], size: int) -> bytes:
    """``size`` bytes and no more, whatever the file has become since it was listed."""
    data = file.read(size)
    if len(data) < size or file.read(1):
        return Unreadable(f"no longer has the {size} bytes it was listed with; list it again")
    return data
