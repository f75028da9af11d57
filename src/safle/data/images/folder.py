"""A folder on disk, and files anywhere on disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from safle.data.images.files import (
    Files,
    Member,
    check_members,
    is_hidden,
    is_image,
    not_a_file,
    plain_name,
    read_whole,
)
from safle.data.images.records import Unreadable
from safle.errors import ImageError


class DiskFiles(Files):
    """Files that are read by their path, which is where a member is ``at``."""

    def __init__(self, path: Path, members: list[Member], *, most_bytes: int) -> None:
        check_members(path, members, most_bytes=most_bytes)
        self.path = path
        self.members = members
        self.most_bytes = most_bytes

    def contents(self, wanted: Sequence[Member]) -> Iterator[bytes]:
        """The bytes of each wanted file."""
        for member in wanted:
            yield _read(member)


def list_folder(path: Path, *, most_bytes: int) -> DiskFiles:
    """All files below a folder, sorted by name; links are followed."""
    members = []
    for raw, at in _walk(path):
        name = plain_name(raw)
        try:
            status = os.stat(at)  # noqa: PTH116 (a path of its own for each is slow)
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


def _read(member: Member) -> bytes:
    try:
        with open(member.at, "rb") as file:  # noqa: PTH123 (as above)
            return read_whole(file, member.size)
    except OSError as error:
        return Unreadable(f"cannot be read: {error.strerror}")
