"""Where features come from: a backbone's name, weights and preprocessing, in one line of text.

Encoders of the same thresholds but for different backbones are different encoders. The core
treats a source as opaque: two are the same if and only if they are equal.
"""

from __future__ import annotations

import re

from safle.errors import SettingsError, SourceMismatch

LONGEST = 1000


def as_source(source: object) -> str:
    """A source as it goes into an encoder's header."""
    if not isinstance(source, str) or len(source) > LONGEST or not source.isprintable():
        raise SettingsError(
            f"the source of features is {str(source)[:80]!r}; expected one line of text with at "
            f"most {LONGEST} characters"
        )
    return source


def check_source(declared: str, found: str, *, where: str, trusted: bool = False) -> None:
    """Raise `SourceMismatch` unless features fit the encoder that is to encode them.

    Parameters
    ----------
    declared : the encoder's source, empty if it was made without one
    found : the features' source, empty if their file does not say
    where : what the features are, for the message
    trusted : pass if one of the two does not say; two that differ never pass

    Examples
    --------
    >>> check_source("network a", "network b", where="features")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.SourceMismatch: features: made by [network b], but the encoder is for ...
    """
    if declared == found:
        return
    if declared and found:
        raise SourceMismatch(
            f"{where}: made by [{shortened(found)}], but the encoder is for "
            f"[{shortened(declared)}]; use the same backbone, weights and preprocessing at every "
            "client"
        )
    if trusted:
        return
    if found:
        raise SourceMismatch(
            f"{where}: made by [{shortened(found)}], but the encoder is for [no declared source]: "
            "other clients could use another backbone unnoticed; make the encoder with "
            "--features-source FILE, or say --trust-features"
        )
    raise SourceMismatch(
        f"{where}: made by [no declared source], but the encoder is for [{shortened(declared)}]; "
        "make them with 'safle features', or say --trust-features if they are its features"
    )


def shortened(source: str) -> str:
    """A source with its digests cut short, for people."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1…", source)
