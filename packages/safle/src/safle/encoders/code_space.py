"""Code space: fingerprint and layout, what two values must share to be added."""

from __future__ import annotations

from dataclasses import dataclass

from safle.encoders.codes import Layout
from safle.errors import EncoderMismatch


@dataclass(frozen=True)
class CodeSpace:
    """The codes that one encoder makes: encoders, statistics and rounds have one.

    Attributes
    ----------
    fingerprint : of the encoder
    layout : of its codes

    Examples
    --------
    >>> space = CodeSpace("0" * 64, Layout((4, 4)))
    >>> space.require(CodeSpace("1" * 64, Layout((4, 4))))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.EncoderMismatch: counted with encoder 111111111111…, this federation uses ...
    """

    fingerprint: str
    layout: Layout

    def require(self, found: CodeSpace) -> None:
        """Raise `EncoderMismatch` unless ``found`` is this space."""
        self.require_encoder(found.fingerprint, same_layout=found.layout == self.layout)

    def require_encoder(self, fingerprint: str, *, same_layout: bool) -> None:
        """Raise `EncoderMismatch` unless a fingerprint is this space's, and its layout too."""
        if fingerprint != self.fingerprint:
            raise EncoderMismatch(
                f"counted with encoder {fingerprint[:12]}…, this federation uses "
                f"{self.fingerprint[:12]}…; take the federation's encoder file and count again"
            )
        if not same_layout:
            raise EncoderMismatch(
                f"claims encoder {fingerprint[:12]}… but has another layout of codes"
            )
