"""The code space of what an encoder made: fingerprint and layout, and the check that two agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from safle.encoders.codes import Layout
from safle.errors import EncoderMismatch


class Made(Protocol):
    """What an encoder made (statistics, a solution), or the encoder itself."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def layout(self) -> Layout: ...


@dataclass(frozen=True)
class CodeSpace:
    """Fingerprint and layout: what two values must share to be added.

    >>> CodeSpace("0" * 64, Layout((4, 4))).layout.embedding_dim
    8
    """

    fingerprint: str
    layout: Layout


def require_same(expected: Made, found: Made) -> None:
    """Raise `EncoderMismatch` unless both were made with one encoder."""
    require_encoder(expected, found.fingerprint, same_layout=found.layout == expected.layout)


def require_encoder(expected: Made, fingerprint: str, *, same_layout: bool) -> None:
    """Raise `EncoderMismatch` unless a fingerprint is the expected one, and its layout too."""
    if fingerprint != expected.fingerprint:
        raise EncoderMismatch(
            f"counted with encoder {fingerprint[:12]}…, this federation uses "
            f"{expected.fingerprint[:12]}…; take the federation's encoder file and count again"
        )
    if not same_layout:
        raise EncoderMismatch(f"claims encoder {fingerprint[:12]}… but has another layout of codes")
