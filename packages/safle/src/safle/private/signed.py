"""Signed files: a head that its maker signs, and the payload whose digest the head holds.

Both lie in the container of docs/wire-format.md. A head without its payload still proves who
sent which bytes: requests to keyholders hold nothing else of a client's file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safle.encoders.features import is_digest
from safle.errors import FederationError, WireError
from safle.private.keys import PrivateKey, PublicKey
from safle.wire import container


@dataclass(frozen=True)
class SignedHead:
    """What a party says of a payload, and its signature.

    >>> key = PrivateKey.new("hospital-a")
    >>> head = SignedHead.sign(key, "masked", b"payload", round="...")
    >>> head.check(key.public, "masked")["round"]
    '...'
    """

    fields: Mapping[str, Any]
    signature: bytes

    @staticmethod
    def sign(key: PrivateKey, kind: str, payload: bytes | memoryview, **fields: Any) -> SignedHead:
        """The head of a payload."""
        said = {**fields, "kind": kind, "payload": hashlib.sha256(payload).hexdigest()}
        return SignedHead(said, key.sign(container.canonical(said)))

    @property
    def payload_digest(self) -> str:
        return str(self.fields["payload"])

    def check(self, key: PublicKey, kind: str) -> Mapping[str, Any]:
        """The fields, if they are of this kind and the owner of the key has signed them."""
        if self.fields.get("kind") != kind:
            raise FederationError(f"a head of kind {self.fields.get('kind')!r}; expected {kind!r}")
        key.check(container.canonical(self.fields), self.signature)
        return self.fields

    def digest(self) -> str:
        """Identity of what was signed."""
        return hashlib.sha256(container.canonical(self.fields)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The head as JSON values."""
        return {"head": dict(self.fields), "signature": self.signature.hex()}

    @staticmethod
    def from_json(content: Any) -> SignedHead:
        """Read `to_json` back; nothing of it is verified yet."""
        try:
            fields, signature = content["head"], bytes.fromhex(content["signature"])
            if set(content) != {"head", "signature"} or not isinstance(fields, dict):
                raise WireError("expected a head and its signature")
            if len(signature) != 64 or not is_digest(fields["payload"]):
                raise WireError("expected a signature of 64 bytes, and the payload's digest")
            # What has no canonical text was signed by nobody.
            container.canonical(fields)
            return SignedHead(fields, signature)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise WireError(f"not a signed head: {error}") from error

    def to_bytes(self, kind: int, payload: bytes) -> bytes:
        """The bytes of a signed file."""
        return container.to_bytes(kind, self.to_json(), {"payload": payload})


@dataclass(frozen=True)
class Signed:
    """A file whose payload is still folded: whoever reads it checks head and size first.

    >>> key = PrivateKey.new("hospital-a")
    >>> data = SignedHead.sign(key, "masked", b"payload").to_bytes(container.MASKED, b"payload")
    >>> Signed.read(data, container.MASKED).unfold(most=7)
    b'payload'
    """

    head: SignedHead
    opened: container.Container

    @staticmethod
    def read(data: bytes | memoryview, kind: int) -> Signed:
        """Open a signed file; neither signature nor payload is looked at yet."""
        opened = container.from_bytes(data, kind=kind)
        if list(opened.frames) != ["payload"]:
            raise WireError("expected just the section payload")
        return Signed(SignedHead.from_json(opened.header), opened)

    @property
    def payload_bytes(self) -> int:
        """What the payload unfolds to."""
        return self.opened.raw_bytes

    def unfold(self, most: int) -> bytes:
        """The payload of at most so many bytes, if it is the one that was signed."""
        if self.payload_bytes > most:
            # A few compressed bytes could fill the memory.
            raise WireError(f"unfolds to {self.payload_bytes} bytes; expected at most {most}")
        payload = self.opened.section("payload", self.payload_bytes)
        self.opened.finish()
        if hashlib.sha256(payload).hexdigest() != self.head.payload_digest:
            raise WireError("the payload is not the one that was signed")
        return payload
