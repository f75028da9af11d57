"""A CSV file of paths and labels -> images on disk, in the file's order."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from safle.data.images.class_folders import FileImages
from safle.data.images.delimited import Row, disk_path, read_rows, typed_labels
from safle.data.images.files import Member, check_size, plain_name
from safle.data.images.folder import DiskFiles
from safle.data.images.records import counted
from safle.data.images.selection import Selection
from safle.errors import ImageError


def open_csv(path: Path, selection: Selection) -> FileImages:
    """The images that a CSV file lists; every one must be there."""
    selection.refuse(path, "a .csv file, which has labels of its own", "labels")
    rows = read_rows(path, selection)
    split = selection.choose_split(path, {row.split for row in rows if row.split is not None})
    rows = [row for row in rows if row.split == split]
    members = _members(path, rows)
    for member in members:
        check_size(path, member, selection.most_bytes)
    labels = typed_labels([row.label for row in rows], where=path)
    split_note = f", split {split}" if split is not None else ""
    files = DiskFiles(path, members, most_bytes=selection.most_bytes)
    return FileImages(files, members, labels, f"files listed in {path.name}{split_note}")


def _members(path: Path, rows: list[Row]) -> list[Member]:
    members, missing, lines = [], [], dict[str, int]()
    for row in rows:
        at = disk_path(path, row.image)
        size = _size(at)
        if size is None:
            missing.append(row)
            continue
        name = plain_name(row.image)
        first = lines.setdefault(name, row.line)
        if first != row.line:
            raise ImageError(
                f"{path}: lines {first} and {row.line} both name {name}; expected every image once"
            )
        members.append(Member(name, size, at))
    if missing:
        raise ImageError(
            f"{path}: {counted(len(missing), 'image')} of {len(rows)} not there or not a regular "
            f"file, the first in line {missing[0].line}: {disk_path(path, missing[0].image)}; "
            f"paths begin at {path.parent.resolve()}"
        )
    return members


def _size(at: str) -> int | None:
    """The size of a regular file, None of anything else."""
    try:
        status = os.stat(at)  # noqa: PTH116 (a path of its own for each is slow)
    # A path with a zero byte in it is a ValueError.
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
