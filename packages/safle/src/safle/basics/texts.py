"""Texts that are not ours as messages, tables and files show them; arguments in the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from safle.errors import InvalidInput

T = TypeVar("T")
LONGEST_REASON = 300
_LIVE = re.compile(r"['=+\-@\t\r\n]")


def printable(text: object, instead: str | None = None) -> str:
    r"""On one line, without control characters: each an escape, or what stands ``instead``.

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
    r"""What somebody else's error says, on one line and short; else what it is.

    >>> reason_of(ValueError("a\n  b")), reason_of(KeyError())
    ('a b', 'KeyError')
    """
    return " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__


def name_some(names: Iterable[object], most: int = 8) -> str:
    """The first of some names, and how many more there are."""
    known = [*names]
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(map(repr, known[:most])) + more


def split_names(text: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas.

    >>> split_names("ill, well,")
    ('ill', 'well')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def neutralise(cell: T) -> T | str:
    """A text that a spreadsheet would read as a formula, with an apostrophe in front.

    The apostrophe itself counts as such a character, so that taking one away gives every name back.

    >>> [neutralise(cell) for cell in ("=1+1", "'quoted", "plain", -1)]
    ["'=1+1", "''quoted", 'plain', -1]
    """
    return f"'{cell}" if isinstance(cell, str) and _LIVE.match(cell) else cell


def require_type(name: str, value: Any, *kinds: type, advice: str = "") -> None:
    """`InvalidInput` unless ``value``, the argument ``name``, is one of ``kinds``."""
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        refuse_type(name, value, expected + (f": {advice}" if advice else ""))


def refuse_type(name: str, value: Any, expected: str) -> None:
    """`InvalidInput`: the argument ``name`` is not what was ``expected``."""
    found = type(value).__name__
    article = "an" if found[0] in "AEIOUaeiou" else "a"
    raise InvalidInput(f"{name} is {article} {found}; expected {expected}")
