"""Files in a folder, a zip or a tar: listed once, then streamed, never unpacked.

`Files` checks names, sizes and kinds before it reads anything. (fsspec reads folders and zips too,
but silently keeps only the last of two members with one name.)
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from safle.errors import ImageError
from safle_images.readers.archives import (
    BROKEN,
    TARS,
    Member,
    is_hidden,
    is_image,
    list_tar,
    list_zip,
    opened_tar,
    opened_zip,
    plain_name,
)
from safle_images.readers.sources import MOST_BYTES, ImageSource, Label, Unreadable


class Files:
    """The regular files of a folder or an archive, or one file alone.

    Attributes
    ----------
    kind : ``folder``, ``zip``, ``tar`` or ``file``
    members : sorted by name; those of a tar in its order, since it may have to be read so
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
            self.members = sorted(list_zip(path))
        else:
            self.members = [*list_tar(path)]
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
        """The bytes of a member that is not an image; `ImageError` if it cannot be read."""
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
            raise ImageError(f"{self.path}: {member.name} is not UTF-8 text") from None
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
                except BROKEN as error:
                    yield Unreadable(f"cannot be read: {getattr(error, 'strerror', None) or error}")
                    continue
                changed = f"no longer has the {member.size} bytes it had at first; run it again"
                yield data if len(data) == member.size else Unreadable(changed)

    @contextmanager
    def _reader(self) -> Iterator[Callable[[Member], bytes]]:
        """A function that reads a member, and one byte more if a file has grown."""
        if self.kind == "zip":
            with opened_zip(self.path) as archive:
                yield lambda member: _read(archive.open(str(member.location)), member.size + 1)
        elif self.kind == "tar":
            with opened_tar(self.path) as stream:
                yield lambda member: stream.read_at(int(member.location), member.size)
        else:
            yield lambda member: _read(open(member.location, "rb"), member.size + 1)  # noqa: PTH123, SIM115


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return "folder"
    name = path.name.lower()
    if name.endswith(TARS):
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
