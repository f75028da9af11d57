"""Find and read files, here or at any address that fsspec understands; read TOML within bounds.

`tomllib` needs memory in proportion to the square of a key's parts: 100 kB of ``a.a.a. ... = 1``
took 9.9 GB. So `parse_toml` checks a text before the parser gets it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from safle.basics.atomic import name_kind
from safle.errors import InvalidInput, MissingExtra, SafleError, SettingsError, WireError

StrPath = str | os.PathLike[str]
SHEET = ".release.txt"
SHEET_JSON = ".release.json"
"""Suffixes of a contribution's release sheet, for people and programs, after its own name."""
BESIDE = (SHEET, SHEET_JSON, ".sig")
"""Suffixes of files beside contributions that are not contributions."""
MAX_BYTES = 1 << 22
MAX_KEYS = 1 << 18
MAX_PARTS = 16
"""Most parts of one dotted key; our files have three."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_PARTS},}}")


def as_path(place: StrPath) -> Path:
    """The path of a file, or of an address (``s3://bucket/a.stats``)."""
    address = str(place)
    if "://" not in address:
        return Path(address)
    try:
        from upath import UPath
    except ImportError as error:
        raise MissingExtra("universal_pathlib", "safle[remote]", f"reading {address}") from error
    try:
        path: Path = UPath(address)
        # Loaded now: the file system may be unknown, or its package not installed.
        _ = path.fs  # type: ignore[attr-defined]
    except (ValueError, ImportError) as error:
        raise InvalidInput(f"{address} cannot be read: {error}") from error
    return path


def open_regular(place: StrPath, error: type[SafleError] = WireError) -> BinaryIO:
    """Open a file, or an address, to read bytes; ``error`` for a pipe, a device or a folder.

    >>> open_regular("/dev/null")
    Traceback (most recent call last):
    safle.errors.WireError: /dev/null: is a device; expected a regular file: copy it into one
    """
    path = as_path(place)
    if "://" in str(place):
        remote: BinaryIO = path.open("rb")
        return remote
    # Without waiting for somebody who writes into a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise error(f"{path}: is {name_kind(mode)}; expected a regular file: copy it into one")
    return open(descriptor, "rb")  # noqa: PTH123


def read_capped(path: StrPath, most: int, what: str, error: type[SafleError] = WireError) -> bytes:
    """A file's bytes; ``error`` if it is larger than ``what`` can be."""
    with open_regular(path, error) as file:
        size = os.fstat(file.fileno()).st_size
        # It may grow, or lie in /proc and report no size.
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        raise error(f"{path}: more than {most:,} bytes; {what} has at most {most:,}")
    return data


def find_files(places: Iterable[StrPath], *, except_for: tuple[str, ...]) -> list[str]:
    """The given files, and the files in given folders except hidden ones and some suffixes."""
    files: list[str] = []
    for path in map(as_path, places):
        inside = path.iterdir() if path.is_dir() else [path]
        files += sorted(
            str(file)
            for file in inside
            if file is path or not (file.name.startswith(".") or file.name.endswith(except_for))
        )
    return files


@contextmanager
def naming(path: StrPath) -> Iterator[None]:
    """Errors about a file begin with its name."""
    try:
        yield
    except SafleError as error:
        # A missing package is not the file's fault.
        if isinstance(error, MissingExtra) or str(error).startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error}") from error


def read_toml(path: StrPath, what: str, *, most: int = MAX_BYTES) -> dict[str, Any]:
    """The content of a TOML file, which messages call ``what``; `SettingsError` for anything else.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     written = file.write("bins = 4")
    ...     file.flush()
    ...     read_toml(file.name, "a grid")
    {'bins': 4}
    """
    return parse_toml(read_capped(path, most, what, SettingsError), str(path))


def parse_toml(data: bytes | str, where: str) -> dict[str, Any]:
    r"""The content of TOML text; `SettingsError`, which begins with ``where``, for anything else.

    >>> parse_toml("[grid]\nbins = 4", "digits.toml")
    {'grid': {'bins': 4}}
    >>> parse_toml("a." * 50_000 + "a = 1", "digits.toml")
    Traceback (most recent call last):
    safle.errors.SettingsError: digits.toml: a key of more than 16 parts; expected fewer dots
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        if len(text) > MAX_BYTES or text.count("=") > MAX_KEYS:
            raise SettingsError(
                f"{where}: {len(text):,} characters and {text.count('='):,} keys; expected at most "
                f"{MAX_BYTES:,} and {MAX_KEYS:,}"
            )
        if _LONG_KEY.search(text):
            raise SettingsError(
                f"{where}: a key of more than {MAX_PARTS} parts; expected fewer dots"
            )
        return tomllib.loads(text)
    except SettingsError:
        raise
    except (ValueError, RecursionError) as problem:
        raise SettingsError(f"{where}: not a TOML file: {problem}") from problem


def as_toml(value: object) -> str:
    """A number, boolean, printable text or list of these as TOML, which writes them as JSON does.

    >>> as_toml(["ill", 1])
    '["ill", 1]'
    """
    return json.dumps(value, ensure_ascii=False)
