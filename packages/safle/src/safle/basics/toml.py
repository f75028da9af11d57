"""TOML from outside: one reader, which bounds what the parser is given.

`tomllib` takes memory in the square of a key's parts: 100 kB of ``a.a.a. ... = 1`` took 9.9 GB.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from safle.basics.places import StrPath, read_capped
from safle.errors import SafleError, SettingsError

MOST_BYTES = 1 << 22
MOST_KEYS = 1 << 18
MOST_PARTS = 16
"""Of one dotted key; files of ours have three."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS},}}")


def read_toml(
    path: StrPath, what: str, *, most: int = MOST_BYTES, error: type[SafleError] = SettingsError
) -> dict[str, Any]:
    """The content of a TOML file; ``error`` for anything that is not one, or is too large.

    Parameters
    ----------
    what : the file is, for messages: "a schema"

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     written = file.write("bins = 4")
    ...     file.flush()
    ...     read_toml(file.name, "a grid")
    {'bins': 4}
    """
    return parse_toml(read_capped(path, most, what, error), str(path), error=error)


def parse_toml(
    data: bytes | str, where: str, *, error: type[SafleError] = SettingsError
) -> dict[str, Any]:
    r"""The content of TOML text; ``error``, which begins with ``where``, for anything else.

    Examples
    --------
    >>> parse_toml("[grid]\nbins = 4", "digits.toml")
    {'grid': {'bins': 4}}
    >>> parse_toml("a." * 50_000 + "a = 1", "digits.toml")
    Traceback (most recent call last):
    safle.errors.SettingsError: digits.toml: a key of more than 16 parts; expected fewer dots
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        if len(text) > MOST_BYTES or text.count("=") > MOST_KEYS:
            raise error(
                f"{where}: {len(text):,} characters and {text.count('='):,} keys; expected at most "
                f"{MOST_BYTES:,} and {MOST_KEYS:,}"
            )
        if _LONG_KEY.search(text):
            raise error(f"{where}: a key of more than {MOST_PARTS} parts; expected fewer dots")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, SafleError):
            raise
        raise error(f"{where}: not a TOML file: {problem}") from problem
