"""Files in a folder, a zip or a tar: listed once, then streamed, never unpacked.

`Files` checks names, sizes and kinds before it reads anything. (fsspec reads folders and zips too,
but silently keeps only the last of two members with one name.)
"""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from safle.errors import ImageError
from safle_images.readers.sources import MOST_BYTES, ImageSource, Label, Unreadable

SUFFIXES = frozenset(
    [
        *(".avif", ".bmp", ".dib", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
        *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    ]
)
MAX_RATIO = 100
"""Images hardly shrink: an archive that unpacks to more times its size is a bomb."""
MAX_SMALL = 64 * 2**20
"""Bytes that an archive may always unpack to: a small one of empty images is no bomb."""
MAX_HEADER = 2**20
_TARS = (".tar", ".tar.gz", ".tgz")
_OUTSIDE = re.compile("/|[A-Za-z]:/")
# The standard library raises these for broken files and unknown compressions.
_BROKEN = (
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


class Files:
    """The regular files of a folder or an archive, or one file alone.

    Attributes
    ----------
    kind : ``folder``, ``zip``, ``tar`` or ``file``
    members : sorted by name; those of a tar as they lie there, since it may have to be read so
    """

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.kind = _kind_of(path)
        self.most_bytes = most_bytes
        self._status = _status_of(path)
        if self.kind == "folder":
            self.members = sorted(_list_folder(path))
        elif self.kind == "file":
            self.members = [Member(plain_name(path.name), path.stat().st_size, str(path))]
        elif self.kind == "zip":
            self.members = sorted(_list_zip(path))
        else:
            self.members = [*_list_tar(path)]
        self.check(self.members)

    def check(self, members: Sequence[Member]) -> None:
        """Raise for an image that is too large, and for a name that comes twice."""
        seen: set[str] = set()
        for member in members:
            if is_image(member.name) and not 0 <= member.size <= self.most_bytes:
                raise ImageError(
                    f"{self.path}: {member.name} has {member.size} bytes; expected at most "
                    f"{self.most_bytes}: remove it, or allow larger images with most_bytes= in "
                    "Python"
                )
            if member.name in seen:
                raise ImageError(f"{self.path}: has {member.name} twice; expected every name once")
            seen.add(member.name)

    @property
    def images(self) -> list[Member]:
        """The members that are images, by their suffixes."""
        return [member for member in self.members if is_image(member.name)]

    def named(self, *bases: str) -> list[Member]:
        """The members in any folder that have one of these names."""
        return [member for member in self.members if member.base in bases]

    def read(self, member: Member) -> bytes:
        """The bytes of a member that is no image; `ImageError` if it cannot be read."""
        if member.size > MOST_BYTES:
            raise ImageError(
                f"{self.path}: {member.name} has {member.size} bytes; expected at most {MOST_BYTES}"
            )
        (data,) = self.contents([member])
        if isinstance(data, Unreadable):
            raise ImageError(f"{self.path}: {member.name} {data.reason}")
        return data

    def lines(self, member: Member) -> list[str]:
        """The lines of a text that are not empty."""
        try:
            text = self.read(member).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ImageError(f"{self.path}: {member.name} is not a text in UTF-8") from None
        return [line for line in text.splitlines() if line.strip()]

    def source(
        self, kind: str, split: str | None, members: Sequence[Member], labels: Sequence[Label]
    ) -> ImageSource:
        """A source of these images."""
        names = [member.name for member in members]
        sizes = [member.size for member in members]
        return ImageSource(
            kind, split, names, labels, sizes, lambda start: self.contents(members[start:])
        )

    def contents(self, members: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each member, or `Unreadable` in its place."""
        if self.kind in ("zip", "tar") and _status_of(self.path) != self._status:
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
        """A function that reads a member, and one byte more if a file has grown."""
        if self.kind == "zip":
            with _opened_zip(self.path) as archive:
                yield lambda member: _read(archive.open(str(member.location)), member.size + 1)
        elif self.kind == "tar":
            with _opened_tar(self.path) as stream:
                yield lambda member: stream.read_at(int(member.location), member.size)
        else:
            yield lambda member: _read(open(member.location, "rb"), member.size + 1)  # noqa: PTH123, SIM115


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return "folder"
    name = path.name.lower()
    if name.endswith(_TARS):
        return "tar"
    # An .npz file is a zip of arrays.
    return "zip" if name.endswith((".zip", ".npz")) else "file"


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
            if is_hidden(name):
                continue
            if stat.S_ISREG(status.st_mode):
                yield Member(name, status.st_size, location)
            elif is_image(name):
                raise ImageError(f"{path}: {name} is not a regular file; remove it")


def _list_zip(path: Path) -> Iterator[Member]:
    with _opened_zip(path) as archive:
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


def _list_tar(path: Path) -> Iterator[Member]:
    archive: Any
    with _opened_tar(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
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
def _opened_tar(path: Path) -> Iterator[Any]:
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
def _opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    with naming(path, "zip"), zipfile.ZipFile(path) as archive:
        yield archive


@contextmanager
def naming(path: Path, kind: str) -> Iterator[None]:
    """Errors of the standard library become `ImageError`."""
    try:
        yield
    except ImageError:
        raise
    except _BROKEN as error:
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
