"""A zip: listed by its directory, read member by member, never unpacked."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
from safle.data.images.records import Unreadable
from safle.errors import ImageError

# What the standard library raises for a member that is broken or packed in an unknown way.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


class ZipFiles(Files):
    """The regular files of a zip, sorted by name."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self.path = path
        self.most_bytes = most_bytes
        with _opened(path) as archive:
            found = (self._member(info) for info in archive.infolist())
            self.members = sorted(member for member in found if member is not None)
        check_members(path, self.members, most_bytes=most_bytes)

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted member, their checksums verified."""
        with _opened(self.path) as archive:
            for member in wanted:
                yield _read(archive, member)

    def _member(self, info: zipfile.ZipInfo) -> Member | None:
        # Windows tools that ignore the standard write backslashes.
        raw = info.filename.replace("\\", "/")
        name = archived_name(raw, archive=self.path)
        if raw.endswith("/") or not name or is_hidden(name):
            return None
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            if is_image(name):
                raise not_a_file(self.path, name, "make the zip again with what it links to")
            return None
        if info.flag_bits & 1:
            raise ImageError(f"{self.path}: {name} is encrypted; make the zip without a password")
        return Member(name, info.file_size, info.filename)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    # A broken directory may also hold names that are no text, and numbers that make no sense.
    except (*_BROKEN, ValueError) as error:
        raise ImageError(f"{path}: not a whole zip file ({error}); copy it again") from error
    with archive:
        yield archive


def _read(archive: zipfile.ZipFile, member: Member) -> bytes:
    try:
        with archive.open(str(member.at)) as file:
            return read_whole(file, member.size)
    except (*_BROKEN, KeyError) as error:
        return Unreadable(f"cannot be read: {error}")
