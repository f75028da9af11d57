"""Where features come from: a backbone's name, weights and preprocessing, in one line of text.

Two encoders with the same thresholds for different backbones are different encoders. The core
does not interpret a source: it only compares two texts.
"""

from __future__ import annotations

import re

from safle.errors import SettingsError, SourceMismatch

MOST_CHARACTERS = 1000


def as_source(source: object) -> str:
    """The source for an encoder's header; `SettingsError` unless it is one line of text."""
    if not isinstance(source, str) or len(source) > MOST_CHARACTERS or not source.isprintable():
        raise SettingsError(
            f"the source of features is {str(source)[:80]!r}; expected one line of text with at "
            f"most {MOST_CHARACTERS} characters"
        )
    return source


def check_source(expected: str, found: str, *, where: str, trusted: bool = False) -> None:
    """Raise `SourceMismatch` unless features fit the encoder that is to encode them.

    Parameters
    ----------
    expected : the encoder's source, empty if it was made without one
    found : the features' source, empty if their file does not name one
    where : name of the features' file, for the message
    trusted : accept features if one of the two is empty; two sources that differ are refused

    Examples
    --------
    >>> check_source("network a", "network b", where="features")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.SourceMismatch: features: made by [network b], but the encoder is for ...
    """
    if expected == found:
        return
    if expected and found:
        raise SourceMismatch(
            f"{where}: made by [{shortened(found)}], but the encoder is for "
            f"[{shortened(expected)}]; use the same backbone, weights and preprocessing at every "
            "client"
        )
    if trusted:
        return
    if found:
        raise SourceMismatch(
            f"{where}: made by [{shortened(found)}], but the encoder is for [no named source]: "
            "other clients could use another backbone unnoticed; make the encoder with "
            "--features-source FILE, or pass --trust-features"
        )
    raise SourceMismatch(
        f"{where}: made by [no named source], but the encoder is for [{shortened(expected)}]; "
        "make them with 'safle features', or pass --trust-features if this source made them"
    )


def shortened(source: str) -> str:
    """The source with its digests cut to 12 digits, for messages."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1…", source)
