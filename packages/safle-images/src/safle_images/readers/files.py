"""Image files in a folder or a zip: listed once, then streamed, never unpacked.

`Files` checks names, sizes and kinds before it reads anything. (fsspec reads folders and zips too,
but silently keeps only the last of two members with one name.)
"""

from __future__ import annotations

import lzma
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from safle.errors import ImageError
from safle_images.readers.sources import Unreadable

SUFFIXES = frozenset(
    [
        *(".avif", ".bmp", ".dib", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
        *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    ]
)
_OUTSIDE = re.compile("/|[A-Za-z]:/")
# The standard library raises these for broken files and unknown compressions.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, KeyError),
    *(OSError, EOFError, NotImplementedError, RuntimeError, ValueError),
)


class Member(NamedTuple):
    """One regular file.

    Attributes
    ----------
    name : with forward slashes, in the same letters on every machine
    location : its path on disk, or its name in the zip
    """

    name: str
    size: int
    location: str


class Files:
    """The regular files of a folder or a zip, sorted by name; or the given ``members`` alone."""

    def __init__(self, path: Path, *, most_bytes: int, members: list[Member] | None = None) -> None:
        self.path = path
        self._status = _status_of(path)
        if members is not None:
            self.members = members
        elif path.is_dir():
            self.members = sorted(_list_folder(path))
        else:
            with _opened(path) as archive:
                found = (_zip_member(path, info) for info in archive.infolist())
                self.members = sorted(member for member in found if member is not None)
        seen: set[str] = set()
        for member in self.members:
            if is_image(member.name) and not 0 <= member.size <= most_bytes:
                raise ImageError(
                    f"{path}: {member.name} has {member.size} bytes; expected at most "
                    f"{most_bytes}: remove it, or allow larger images with most_bytes= in Python"
                )
            if member.name in seen:
                raise ImageError(f"{path}: has {member.name} twice; expected every name once")
            seen.add(member.name)

    def contents(self, members: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each member, or `Unreadable` in its place."""
        if not self.path.is_dir() and _status_of(self.path) != self._status:
            raise ImageError(f"{self.path}: changed while it was read; run the command again")
        with self._reader() as read:
            for member in members:
                try:
                    data = read(member)
                except _BROKEN as error:
                    yield Unreadable(f"cannot be read: {getattr(error, 'strerror', None) or error}")
                    continue
                changed = f"no longer has the {member.size} bytes it had at first; run it again"
                yield data if len(data) == member.size else Unreadable(changed)

    @contextmanager
    def _reader(self) -> Iterator[Callable[[Member], bytes]]:
        """A function that reads a member, and one byte more if the file has grown."""
        if self.path.is_dir():
            yield lambda member: _read(open(member.location, "rb"), member.size + 1)  # noqa: PTH123, SIM115
        else:
            with _opened(self.path) as archive:
                yield lambda member: _read(archive.open(member.location), member.size + 1)


def _read(file: IO[bytes], size: int) -> bytes:
    with file:
        return file.read(size)


def _status_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _list_folder(path: Path) -> Iterator[Member]:
    """All files below a folder; it follows links, but not in circles."""

    def refuse(error: OSError) -> None:
        raise ImageError(f"{error.filename}: cannot be listed: {error.strerror}") from error

    for folder, folders, files in os.walk(path, followlinks=True, onerror=refuse):
        above = os.path.realpath(folder) + os.sep
        folders[:] = [
            name
            for name in folders
            if not above.startswith(os.path.realpath(f"{folder}/{name}") + os.sep)
        ]
        for file in files:
            location = f"{folder}/{file}"
            name = plain_name(location.removeprefix(f"{path}/"))
            try:
                status = os.stat(location)  # noqa: PTH116 (a Path for each is slow)
            except OSError as error:
                if is_image(name) and not is_hidden(name):
                    raise ImageError(f"{location}: cannot be read: {error.strerror}") from error
                continue
            if _is_wanted(path, name, stat.S_ISREG(status.st_mode), "remove it"):
                yield Member(name, status.st_size, location)


def _zip_member(path: Path, info: zipfile.ZipInfo) -> Member | None:
    # Windows tools that ignore the standard write backslashes.
    raw = info.filename.replace("\\", "/")
    name = _inner_name(raw, archive=path)
    is_file = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
    hint = "make the zip again with the file that it links to"
    if raw.endswith("/") or not name or not _is_wanted(path, name, is_file, hint):
        return None
    if info.flag_bits & 1:
        raise ImageError(f"{path}: {name} is encrypted; make the zip without a password")
    return Member(name, info.file_size, info.filename)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except ImageError:
        raise
    except _BROKEN as error:
        raise ImageError(f"{path}: not a complete zip file ({error}); copy it again") from error


def _inner_name(raw: str, *, archive: Path) -> str:
    """The plain name of a member; a name that leads out of the archive is refused."""
    parts = [part for part in plain_name(raw).split("/") if part not in ("", ".")]
    if _OUTSIDE.match(raw) or ".." in parts:
        raise ImageError(
            f"{archive}: has a member called {raw!r}; expected names inside the archive: "
            "do not unpack it; get another from its author"
        )
    return "/".join(parts)


def _is_wanted(path: Path, name: str, is_file: bool, hint: str) -> bool:
    """Whether an entry is a regular file and not hidden; an image must be a regular file."""
    if is_hidden(name):
        return False
    if not is_file and is_image(name):
        raise ImageError(f"{path}: {name} is not a regular file; {hint}")
    return is_file


def is_image(name: str) -> bool:
    """Whether a name has the suffix of an image."""
    dot = name.rfind(".")
    return dot >= 0 and name[dot:].lower() in SUFFIXES


def is_hidden(name: str) -> bool:
    """Whether a file was left by an operating system: ``.DS_Store``, ``__MACOSX/._1.jpg``."""
    return name.startswith((".", "__MACOSX/")) or "/." in name


def plain_name(raw: str) -> str:
    """A file's name as text that is the same on every machine.

    Only macOS decomposes letters with accents, and a class must have one name. Bytes that are
    not UTF-8 become escapes.
    """
    text = raw.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return unicodedata.normalize("NFC", text)


def path_inside(folder: Path, name: str) -> Path | None:
    """The path of a file that a list in ``folder`` names; None if it leads out of the folder.

    A link inside the folder may lead anywhere: the folder's owner made it, a stranger the list.
    """
    if "\0" in name:
        return None
    root = os.path.abspath(folder)  # noqa: PTH100 (links stay as they are)
    place = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return Path(place) if os.path.commonpath([root, place]) == root else None
