"""Regular files under one path, a folder's or those of an archive: listed once, then streamed."""

import os
import stat
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from safle.errors import ImageError, TableError
from safle_images.readers.sources import Label, Record, Unreadable, describe, listing_digest

SUFFIXES = frozenset(
    [
        *(".avif", ".bmp", ".dib", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
        *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    ]
)
MOST_TEXT = 2**22
"""Bytes of a file of labels."""


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

    def __init__(self, path: Path, members: list[Member], *, most_bytes: int) -> None:
        self.path, self.members, self.most_bytes = path, members, most_bytes
        seen: set[str] = set()
        for member in members:
            if is_image(member.name):
                self.check_size(member)
            if member.name in seen:
                raise ImageError(f"{path}: has {member.name} twice; expected every name once")
            seen.add(member.name)

    @abstractmethod
    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, or :class:`Unreadable` in its place."""

    def check_size(self, member: Member, most: int | None = None) -> None:
        """Refuse a file by its declared size, before a byte of it is read."""
        most = self.most_bytes if most is None else most
        if not 0 <= member.size <= most:
            raise ImageError(
                f"{self.path}: {member.name} has {member.size} bytes; expected at most "
                f"{most}: remove it, or allow larger images with most_bytes= in Python"
            )

    def texts(self, wanted: Sequence[Member]) -> Iterator[str]:
        """The texts of members that nothing can do without."""
        for member in wanted:
            self.check_size(member, MOST_TEXT)
        for member, data in zip(wanted, self.contents(wanted), strict=True):
            if isinstance(data, Unreadable):
                raise ImageError(f"{self.path}: {member.name} {data.reason}")
            yield data.decode(errors="replace")


class DiskFiles(Files):
    """Files that are read by their path, which is where a member is ``at``."""

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted file."""
        for member in wanted:
            try:
                with open(member.at, "rb") as file:  # noqa: PTH123 (a Path for each is slow)
                    yield read_whole(file, member.size)
            except OSError as error:
                yield Unreadable(f"cannot be read: {error.strerror}")


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images that are files, with a label each."""

    files: Files
    members: Sequence[Member]
    labels: Sequence[Label]
    kind: str
    split: str | None

    @property
    def description(self) -> str:
        return describe(self.kind, self.split, self.labels)

    def __len__(self) -> int:
        return len(self.members)

    def digest(self) -> str:
        """SHA-256 of all names, labels and sizes."""
        pairs = zip(self.members, self.labels, strict=True)
        return listing_digest((member.name, label, member.size) for member, label in pairs)

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        wanted = self.members[start:]
        contents = self.files.contents(wanted)
        for member, label, data in zip(wanted, self.labels[start:], contents, strict=True):
            yield Record(member.name, label, data)


def list_folder(path: Path, *, most_bytes: int) -> DiskFiles:
    """All files below a folder, sorted by name; links are followed."""
    members = []
    for raw, at in _walk(path):
        name = plain_name(raw)
        try:
            status = os.stat(at)  # noqa: PTH116 (a Path for each is slow)
        except OSError as error:
            if is_image(name):
                raise ImageError(f"{at}: cannot be read: {error.strerror}") from error
            continue
        if stat.S_ISREG(status.st_mode):
            members.append(Member(name, status.st_size, at))
        elif is_image(name):
            raise not_a_file(path, name, "remove it")
    return DiskFiles(path, sorted(members), most_bytes=most_bytes)


def _walk(path: Path) -> Iterator[tuple[str, str]]:
    """Name and path of everything below ``path`` that is not a folder or hidden."""
    open_folders = [("", str(path), frozenset[tuple[int, int]]())]
    while open_folders:
        prefix, folder, above = open_folders.pop()
        try:
            status = Path(folder).stat()
            # A link to a folder above would be followed for ever.
            identity = (status.st_dev, status.st_ino)
            if identity in above:
                continue
            entries = [(entry, entry.is_dir()) for entry in os.scandir(folder)]
        except OSError as error:
            raise ImageError(f"{folder}: cannot be listed: {error.strerror}") from error
        for entry, is_folder in entries:
            if is_hidden(f"{prefix}{entry.name}/"):
                continue
            if is_folder:
                open_folders.append((f"{prefix}{entry.name}/", entry.path, above | {identity}))
            else:
                yield prefix + entry.name, entry.path


def path_inside(folder: Path, name: str) -> Path | None:
    """Where a list in ``folder`` says that a file is; None if that leads out of the folder.

    A link inside the folder may lead anywhere: it is the owner's, the list may not be.
    """
    root = os.path.abspath(folder)  # noqa: PTH100 (links stay as they are)
    place = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return Path(place) if os.path.commonpath([root, place]) == root else None


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


def not_a_file(where: Path, name: str, hint: str) -> ImageError:
    """An image's name on a link, a pipe or a device."""
    return ImageError(f"{where}: {name} is not a regular file; {hint}")


def read_whole(file: IO[bytes], size: int) -> bytes:
    """``size`` bytes and no more, whatever the file has become since it was listed."""
    data = file.read(size)
    if len(data) < size or file.read(1):
        return Unreadable(f"no longer has the {size} bytes it was listed with; list it again")
    return data


@contextmanager
def as_image_error() -> Iterator[None]:
    """What the readers of tables find wrong is here wrong with images."""
    try:
        yield
    except TableError as error:
        raise ImageError(str(error)) from None
