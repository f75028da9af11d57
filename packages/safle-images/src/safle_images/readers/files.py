"""Image files in a folder or a zip: listed once, then streamed, never unpacked.

Sizes, names and kinds are checked before anything is read. (fsspec would read both as well, but
keeps the last of two members with one name.)
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
# What the standard library raises for what is broken or packed in an unknown way.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, KeyError),
    *(OSError, EOFError, NotImplementedError, RuntimeError, ValueError),
)


class Member(NamedTuple):
    """One regular file.

    Attributes
    ----------
    name : with forward slashes, in the same letters on every machine
    at : its path, or its name in a zip
    """

    name: str
    size: int
    at: str


class Files:
    """The regular files of a folder or a zip, sorted by name; of a folder, perhaps some of them."""

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

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, or `Unreadable` in its place."""
        if not self.path.is_dir() and _status_of(self.path) != self._status:
            raise ImageError(f"{self.path}: changed since it was listed; start again")
        with self._reader() as read:
            for member in wanted:
                try:
                    data = read(member)
                except _BROKEN as error:
                    yield Unreadable(f"cannot be read: {getattr(error, 'strerror', None) or error}")
                    continue
                lost = f"no longer has the {member.size} bytes it was listed with; list it again"
                yield data if len(data) == member.size else Unreadable(lost)

    @contextmanager
    def _reader(self) -> Iterator[Callable[[Member], bytes]]:
        """What reads a member: its bytes, and one more if there is one."""
        if self.path.is_dir():
            yield lambda member: _read(open(member.at, "rb"), member.size + 1)  # noqa: PTH123, SIM115
        else:
            with _opened(self.path) as archive:
                yield lambda member: _read(archive.open(member.at), member.size + 1)


def _read(file: IO[bytes], size: int) -> bytes:
    with file:
        return file.read(size)


def _status_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _list_folder(path: Path) -> Iterator[Member]:
    """All files below a folder; links are followed, but not in circles."""

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
            at = f"{folder}/{file}"
            name = plain_name(at.removeprefix(f"{path}/"))
            try:
                status = os.stat(at)  # noqa: PTH116 (a Path for each is slow)
            except OSError as error:
                if is_image(name) and not is_hidden(name):
                    raise ImageError(f"{at}: cannot be read: {error.strerror}") from error
                continue
            if _is_wanted(path, name, stat.S_ISREG(status.st_mode), "remove it"):
                yield Member(name, status.st_size, at)


def _zip_member(path: Path, info: zipfile.ZipInfo) -> Member | None:
    # Windows tools that ignore the standard write backslashes.
    raw = info.filename.replace("\\", "/")
    name = _inner_name(raw, archive=path)
    is_file = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
    hint = "make the zip again with what it links to"
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
        raise ImageError(f"{path}: not a whole zip file ({error}); copy it again") from error


def _inner_name(raw: str, *, archive: Path) -> str:
    """The name of an archive's member, refused if it leads out of the archive."""
    parts = [part for part in plain_name(raw).split("/") if part not in ("", ".")]
    if _OUTSIDE.match(raw) or ".." in parts:
        raise ImageError(
            f"{archive}: has a member called {raw!r}; expected names inside the archive: "
            "do not unpack it, and ask whoever made it for another"
        )
    return "/".join(parts)


def _is_wanted(path: Path, name: str, is_file: bool, hint: str) -> bool:
    """Whether something is a file that anybody put there; an image must be one."""
    if is_hidden(name):
        return False
    if not is_file and is_image(name):
        raise ImageError(f"{path}: {name} is not a regular file; {hint}")
    return is_file


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


def path_inside(folder: Path, name: str) -> Path | None:
    """Where a list in ``folder`` says that a file is; None if that leads out of the folder.

    A link inside the folder may lead anywhere: it is the owner's, the list may not be.
    """
    if "\0" in name:
        return None
    root = os.path.abspath(folder)  # noqa: PTH100 (links stay as they are)
    place = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return Path(place) if os.path.commonpath([root, place]) == root else None
