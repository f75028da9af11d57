"""Arguments in the wrong place are errors of ours, which say what was found and expected."""

from __future__ import annotations

from typing import Any

from safle.errors import InvalidInput


def require_type(name: str, value: Any, *kinds: type, advice: str = "") -> None:
    """`InvalidInput` unless ``value``, the argument ``name``, is one of ``kinds``.

    >>> require_type("encoder", [1.0], str)
    Traceback (most recent call last):
    safle.errors.InvalidInput: encoder is a list; expected str
    """
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        refuse_type(name, value, expected + (f": {advice}" if advice else ""))


def refuse_type(name: str, value: Any, expected: str) -> None:
    """`InvalidInput`: the argument ``name`` is not what was ``expected``."""
    found = type(value).__name__
    article = "an" if found[0] in "AEIOUaeiou" else "a"
    raise InvalidInput(f"{name} is {article} {found}; expected {expected}")
