"""Where files are: on this machine, or at any address that fsspec understands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safle.errors import InvalidInput, MissingExtra, SafleError, WireError

StrPath = str | os.PathLike[str]
SHEET, SHEET_PAGE = ".release.txt", ".release.html"
"""What follows a contribution's name in those of its release sheets."""
BESIDE = (SHEET, SHEET_PAGE, ".sig")
"""How names end of what lies beside contributions and is none."""


def as_path(place: StrPath) -> Path:
    """A path; that of an address (``s3://bucket/a.stats``) is used like any other.

    >>> as_path("clients/a.stats").name
    'a.stats'
    """
    address = str(place)
    if "://" not in address:
        return Path(address)
    try:
        from upath import UPath
    except ImportError as error:
        raise MissingExtra("universal_pathlib", "safle[remote]", f"reading {address}") from error
    try:
        path: Path = UPath(address)
        # Looked for here: it may be unknown, or in a package of its own.
        _ = path.fs  # type: ignore[attr-defined]
    except (ValueError, ImportError) as error:
        raise InvalidInput(f"{address} cannot be read: {error}") from error
    return path


def read_capped(path: StrPath, most: int, what: str, error: type[SafleError] = WireError) -> bytes:
    """A file's bytes; ``error`` if it is larger than ``what`` can be."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        # What is no regular file does not say its size: one byte more than allowed will do.
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        raise error(f"{path}: more than {most} bytes; {what} has at most so many")
    return data


def find_files(places: Iterable[StrPath], *, except_for: tuple[str, ...]) -> list[str]:
    """Files as they are; folders as what is in them, by name, but for hidden files and suffixes."""
    found: list[str] = []
    for path in map(as_path, places):
        inside = path.iterdir() if path.is_dir() else [path]
        found += sorted(
            str(file)
            for file in inside
            if file is path or not (file.name.startswith(".") or file.name.endswith(except_for))
        )
    return found


@contextmanager
def naming(path: StrPath) -> Iterator[None]:
    """Errors about a file begin with its name."""
    try:
        yield
    except SafleError as error:
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error}") from error
