"""Files of a zip or a tar, by the standard library: never unpacked, one member in memory.

Hugging Face ``datasets`` would read both, but cannot be trusted with a client's archive. Its
image folders open a zip anew for every image, mix the splits inside, and fail on the names of
classes; else the whole archive is unpacked into a cache on disk. Its WebDataset reader takes a
tar that was cut short for a whole one, reads members of any size, and loses labels and images
whose kind is not among the first five.
"""

from __future__ import annotations

import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from safle.errors import ImageError
from safle_images.readers.files import (
    Files,
    Member,
    is_hidden,
    is_image,
    not_a_file,
    plain_name,
    read_whole,
)
from safle_images.readers.sources import Unreadable

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_OUTSIDE = re.compile("/|[A-Za-z]:/")
# What the standard library raises for what is broken or packed in an unknown way.
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(OSError, EOFError, NotImplementedError, RuntimeError),
)
# A long name is a member of its own, which tarfile reads whole before anyone sees its size.
_MOST_HEADER_BYTES = 2**20
_HEADER_TYPES = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_Packed = Literal["r:gz", "r:bz2", "r:xz"]
_MAGIC: dict[bytes, _Packed] = {b"\x1f\x8b": "r:gz", b"BZ": "r:bz2", b"\xfd7": "r:xz"}


class ZipFiles(Files):
    """The regular files of a zip, sorted by name."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        with _zip(path) as archive:
            found = (_zip_member(path, info) for info in archive.infolist())
            members = sorted(member for member in found if member is not None)
        super().__init__(path, members, most_bytes=most_bytes)

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, their checksums verified."""
        with _zip(self.path) as archive:
            for member in wanted:
                try:
                    with archive.open(str(member.at)) as file:
                        yield read_whole(file, member.size)
                except (*_BROKEN, KeyError) as error:
                    yield Unreadable(f"cannot be read: {error}")


def _zip_member(path: Path, info: zipfile.ZipInfo) -> Member | None:
    # Windows tools that ignore the standard write backslashes.
    raw = info.filename.replace("\\", "/")
    name = _inner_name(raw, archive=path)
    if raw.endswith("/") or not name or is_hidden(name):
        return None
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        if is_image(name):
            raise not_a_file(path, name, "make the zip again with what it links to")
        return None
    if info.flag_bits & 1:
        raise ImageError(f"{path}: {name} is encrypted; make the zip without a password")
    return Member(name, info.file_size, info.filename)


@contextmanager
def _zip(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    # A broken directory may also hold names that are no text, and numbers that make no sense.
    except (*_BROKEN, ValueError) as error:
        raise ImageError(f"{path}: not a whole zip file ({error}); copy it again") from error
    with archive:
        yield archive


class TarFiles(Files):
    """The regular files of a tar, in the order they have in it."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        members = []
        with _tar(path) as archive:
            for at, info in _headers(archive):
                name = _inner_name(info.name, archive=path)
                if info.isdir() or is_hidden(name):
                    continue
                if info.isreg():
                    members.append(Member(name, info.size, at))
                elif is_image(name):
                    hint = "make the tar again with --dereference --hard-dereference"
                    raise not_a_file(path, name, hint)
            # To the end of a compressed file, where its checksum is.
            while archive.fileobj.read(2**20):
                pass
        super().__init__(path, members, most_bytes=most_bytes)

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, in one pass."""
        remaining = iter(wanted)
        member = next(remaining, None)
        if member is None:
            return
        with _tar(self.path) as archive:
            for at, info in _headers(archive):
                if at != member.at:
                    continue
                file = archive.extractfile(info) if info.isreg() else None
                if file is None:
                    break
                yield read_whole(file, member.size)
                member = next(remaining, None)
                if member is None:
                    return
        raise ImageError(f"{self.path}: changed while it was read; leave it alone and start again")


class _Header(tarfile.TarInfo):
    """A header that says when something is wrong with it.

    tarfile itself takes a header that is cut short for the end of the archive.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise  # The block of zeros that ends an archive.
            raise tarfile.ReadError(str(error)) from error
        most = _MOST_HEADER_BYTES if header.type in _HEADER_TYPES else header.size
        if not 0 <= header.size <= most:
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        return header


def _headers(archive: tarfile.TarFile) -> Iterator[tuple[int, tarfile.TarInfo]]:
    """Each member's number and header; none is kept, a million would need a gigabyte."""
    at, end = 0, -1
    while (info := archive.next()) is not None:
        if archive.offset <= end:  # A size below zero leads back to where we were.
            raise tarfile.ReadError("members that overlap")
        end = archive.offset
        yield at, info
        archive.members.clear()  # type: ignore[attr-defined]
        at += 1


@contextmanager
def _tar(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with path.open("rb") as file:
            packed = _MAGIC.get(file.read(2))
        with tarfile.open(path, packed or "r:", tarinfo=_Header) as archive:
            yield archive
    except _BROKEN as error:
        raise ImageError(f"{path}: not a whole tar file ({error}); copy it again") from error


def _inner_name(raw: str, *, archive: Path) -> str:
    """The name of an archive's member, refused if it leads out of the archive."""
    parts = [part for part in plain_name(raw).split("/") if part not in ("", ".")]
    if _OUTSIDE.match(raw) or ".." in parts:
        raise ImageError(
            f"{archive}: has a member called {raw!r}; expected names inside the archive: "
            "do not unpack it, and ask whoever made it for another"
        )
    return "/".join(parts)
