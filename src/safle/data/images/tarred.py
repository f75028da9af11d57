"""A tar, compressed or not: listed in one pass, read in another, never unpacked."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from safle.data.images.files import (
    Files,
    Member,
    archived_name,
    check_members,
    is_hidden,
    is_image,
    not_a_file,
    read_whole,
)
from safle.errors import ImageError

# A long name is a member of its own, which tarfile reads whole before anyone sees its size.
_MOST_HEADER_BYTES = 2**20
_HEADER_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_MAGIC: dict[bytes, Literal["r:gz", "r:bz2", "r:xz"]] = {
    b"\x1f\x8b": "r:gz",
    b"BZ": "r:bz2",
    b"\xfd7": "r:xz",
}
_BROKEN = (tarfile.TarError, zlib.error, lzma.LZMAError, OSError, EOFError)


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


class TarFiles(Files):
    """The regular files of a tar, in the order they have in it."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.members = []
        with _opened(path) as archive:
            for at, info in _headers(archive):
                name = archived_name(info.name, archive=path)
                if info.isdir() or is_hidden(name):
                    continue
                if info.isreg():
                    self.members.append(Member(name, info.size, at))
                elif is_image(name):
                    hint = "make the tar again with --dereference --hard-dereference"
                    raise not_a_file(path, name, hint)
            _drain(archive)
        check_members(path, self.members, most_bytes=most_bytes)

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, in one pass."""
        remaining = iter(wanted)
        member = next(remaining, None)
        if member is None:
            return
        with _opened(self.path) as archive:
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


def _drain(archive: tarfile.TarFile) -> None:
    """Read to the end of a compressed file, where its checksum is."""
    while archive.fileobj.read(2**20):
        pass


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with path.open("rb") as file:
            packed = _MAGIC.get(file.read(2))
        with tarfile.open(path, packed or "r:", tarinfo=_Header) as archive:
            yield archive
    except _BROKEN as error:
        raise ImageError(f"{path}: not a whole tar file ({error}); copy it again") from error
