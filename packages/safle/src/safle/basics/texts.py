"""Show texts from outside in messages, tables and files; check the types of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from safle.errors import InvalidInput

T = TypeVar("T")
MAX_REASON = 300
NAMES_SHOWN = 12
_FORMULA_START = re.compile(r"['=+\-@\t\r\n]")


def printable(text: object, instead: str | None = None) -> str:
    r"""The text on one line: control characters become escapes, or ``instead``.

    >>> printable("ill\x07"), printable("ill\x07", "?")
    ('ill\\x07', 'ill?')
    """
    return "".join(
        char
        if char.isprintable()
        else char.encode("unicode_escape").decode()
        if instead is None
        else instead
        for char in str(text)
    )


def reason_of(error: BaseException) -> str:
    r"""The message of an error of another library, short, on one line; its type if it has none.

    >>> reason_of(ValueError("a\n  b")), reason_of(KeyError())
    ('a b', 'KeyError')
    """
    return " ".join(str(error).split())[:MAX_REASON] or type(error).__name__


def name_some(names: Iterable[object], most: int = 20) -> str:
    """The first ``most`` names, and how many more there are.

    >>> name_some(["ill", "well", "odd"], most=2)
    "'ill', 'well' and 1 more"
    """
    listed = [*names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(map(repr, listed[:most])) + more


def list_names(names: Sequence[object]) -> str:
    """How many names, and the first of them, for people.

    >>> list_names(["ill", "well"])
    '2 (ill, well)'
    """
    if not names:
        return "0"
    shown = ", ".join(str(name) for name in names[:NAMES_SHOWN])
    return f"{len(names):,} ({shown}{', …' if len(names) > NAMES_SHOWN else ''})"


def split_names(text: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas.

    >>> split_names("ill, well,")
    ('ill', 'well')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def neutralise(cell: T) -> T | str:
    """A text that a spreadsheet would read as a formula, with an apostrophe in front.

    A text that begins with an apostrophe gets one as well: taking one away restores every text.

    >>> [neutralise(cell) for cell in ("=1+1", "'quoted", "plain", -1)]
    ["'=1+1", "''quoted", 'plain', -1]
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA_START.match(cell) else cell


def require_type(name: str, value: Any, *types: type, advice: str = "") -> None:
    """`InvalidInput` unless ``value``, the argument ``name``, is one of ``types``."""
    if not isinstance(value, types):
        expected = " or ".join(allowed.__name__ for allowed in types)
        refuse_type(name, value, expected + (f": {advice}" if advice else ""))


def refuse_type(name: str, value: Any, expected: str) -> None:
    """`InvalidInput`: the argument ``name`` is not what was ``expected``."""
    found = type(value).__name__
    article = "an" if found[0] in "AEIOUaeiou" else "a"
    raise InvalidInput(f"{name} is {article} {found}; expected {expected}")
