"""What an encoder made carries its fingerprint and layout: the one check that two agree."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from safle.encoders.codes import Layout
from safle.errors import EncoderMismatch


class Made(Protocol):
    """What an encoder made (statistics, a solution), or the encoder itself."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def layout(self) -> Layout: ...


class Declared(NamedTuple):
    """An encoder that a file names, or some columns of one."""

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
