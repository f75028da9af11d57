"""Zips and tars: what is in them, with names and sizes checked before anything is read."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from safle.errors import ImageError

SUFFIXES = frozenset(
    [
        *(".avif", ".bmp", ".dib", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
        *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    ]
)
MAX_RATIO = 100
"""Images hardly shrink: an archive that unpacks to more times its size is a bomb."""
MAX_SMALL = 64 * 2**20
"""Bytes that an archive may always unpack to: a small one of empty images is not a bomb."""
MAX_HEADER = 2**20
TARS = (".tar", ".tar.gz", ".tgz")
_OUTSIDE = re.compile("/|[A-Za-z]:/")
# The standard library raises these for broken files and unknown compressions.
BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, KeyError),
    *(OSError, EOFError, NotImplementedError, RuntimeError, ValueError),
)


class Member(NamedTuple):
    """One regular file.

    Attributes
    ----------
    name : with forward slashes, in the same letters on every machine
    location : its path on disk, its name in the zip, or its place in the tar
    """

    name: str
    size: int
    location: str | int

    @property
    def base(self) -> str:
        """The name without its folders."""
        return self.name.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folders of the name, with the last slash."""
        return self.name[: -len(self.base)]


def list_zip(path: Path) -> Iterator[Member]:
    """The regular files of a zip."""
    with opened_zip(path) as archive:
        infos = archive.infolist()
    _check_total(path, sum(info.file_size for info in infos))
    for info in infos:
        # Windows tools that ignore the standard write backslashes.
        raw = info.filename.replace("\\", "/")
        is_file = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
        name = _inner_name(path, raw, is_file=is_file or raw.endswith("/"))
        if raw.endswith("/") or is_hidden(name):
            continue
        if info.flag_bits & 1:
            raise ImageError(f"{path}: {name} is encrypted; make the zip without a password")
        yield Member(name, info.file_size, info.filename)


def list_tar(path: Path) -> Iterator[Member]:
    """The regular files of a tar, in their order."""
    archive: Any
    with opened_tar(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for info in iter(archive.next, None):
            # Otherwise every member stays in memory twice.
            archive.members.clear()
            if info.size < 0:
                raise tarfile.ReadError(f"{info.name} has {info.size} bytes")
            is_file = info.isreg() and info.sparse is None
            name = _inner_name(path, info.name, is_file=is_file or info.isdir())
            if is_file and not is_hidden(name):
                yield Member(name, info.size, info.offset_data)
        # The library takes a damaged header for the end.
        if stream.read_at(archive.offset, 512) != bytes(512):
            raise ImageError(f"{path}: not a complete tar file; copy it again")
        while stream.read(512):
            # A compressed file has its checksum at its end.
            continue


class _Unpacked:
    """The bytes of a tar, which may be compressed; none beyond those that it may unpack to."""

    def __init__(self, path: Path, file: IO[bytes] | gzip.GzipFile, most: int) -> None:
        self._path = path
        self._file = file
        self._most = most
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        """What `tarfile` reads: headers."""
        if not 0 <= size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self.read_at(self.tell(), size)

    def seek(self, place: int) -> int:
        _check_total(self._path, place, self._most)
        return self._file.seek(place)

    def read_at(self, place: int, size: int) -> bytes:
        """The bytes of a member."""
        _check_total(self._path, place + size, self._most)
        self._file.seek(place)
        return self._file.read(size)


@contextmanager
def opened_tar(path: Path) -> Iterator[Any]:
    """The bytes of the tar, unpacked as they are read."""
    with naming(path, "tar"), path.open("rb") as packed:
        size = path.stat().st_size
        if path.name.lower().endswith(".tar"):
            # Readers look one block beyond the end.
            yield _Unpacked(path, packed, size + tarfile.RECORDSIZE)
        else:
            with gzip.open(packed) as file:
                yield _Unpacked(path, file, most_unpacked(size))


def most_unpacked(size: int) -> int:
    """Bytes that an archive of ``size`` bytes may unpack to."""
    return MAX_SMALL + MAX_RATIO * size


def _check_total(path: Path, total: int, most: int | None = None) -> None:
    limit = most_unpacked(path.stat().st_size) if most is None else most
    if total > limit:
        raise ImageError(
            f"{path}: claims to unpack to {total:,} bytes or more; expected at most {limit:,}, by "
            "its size: it is damaged, or made to fill a disk: get another"
        )


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip, open."""
    with naming(path, "zip"), zipfile.ZipFile(path) as archive:
        yield archive


@contextmanager
def naming(path: Path, kind: str) -> Iterator[None]:
    """Errors of the standard library become `ImageError`."""
    try:
        yield
    except ImageError:
        raise
    except BROKEN as error:
        raise ImageError(f"{path}: not a complete {kind} file ({error}); copy it again") from error


def _inner_name(path: Path, raw: str, *, is_file: bool) -> str:
    """The plain name of a member; one that leads out of the archive, or a link, is refused."""
    parts = [part for part in plain_name(raw).split("/") if part not in ("", ".")]
    if _OUTSIDE.match(raw) or ".." in parts:
        raise ImageError(
            f"{path}: has a member called {raw!r}; expected names inside the archive: "
            "do not unpack it; get another from its author"
        )
    name = "/".join(parts)
    if not is_file and not is_hidden(name):
        raise ImageError(
            f"{path}: {name} is not a regular file but a link or a device; make the archive again "
            "with the file that it links to"
        )
    return name


def is_image(name: str) -> bool:
    """Whether a name has the suffix of an image."""
    dot = name.rfind(".")
    return dot >= 0 and name[dot:].lower() in SUFFIXES


def is_hidden(name: str) -> bool:
    """Whether a file was left by an operating system: ``.DS_Store``, ``__MACOSX/._1.jpg``."""
    return not name or name.startswith((".", "__MACOSX/")) or "/." in name


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
