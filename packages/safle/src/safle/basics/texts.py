"""Texts that are not ours (names, reasons, labels) as messages, tables and files show them."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_REASON = 300


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
    """The first of some names, and how many more there are.

    >>> name_some("abc", most=2)
    "'a', 'b' and 1 more"
    """
    known = [*names]
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(map(repr, known[:most])) + more


def split_names(text: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas.

    >>> split_names("ill, well,")
    ('ill', 'well')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())
