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
from safle.federation.private.keys import PrivateKey, PublicKey
from safle.wire import container


@dataclass(frozen=True)
class Head:
    """What a party says of a payload, and its signature.

    >>> key = PrivateKey.new("hospital-a")
    >>> head = Head.sign(key, "masked", b"payload", round="...")
    >>> head.check(key.public, "masked")["round"]
    '...'
    """

    fields: Mapping[str, Any]
    signature: bytes

    @staticmethod
    def sign(key: PrivateKey, kind: str, payload: bytes | memoryview, **fields: Any) -> Head:
        """The head of a payload."""
        said = {**fields, "kind": kind, "payload": hashlib.sha256(payload).hexdigest()}
        return Head(said, key.sign(container.canonical(said)))

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
    def from_json(content: Any) -> Head:
        """Read `to_json` back; nothing of it is verified yet."""
        try:
            fields, signature = content["head"], bytes.fromhex(content["signature"])
            if set(content) != {"head", "signature"} or not isinstance(fields, dict):
                raise WireError("expected a head and its signature")
            if len(signature) != 64 or not is_digest(fields["payload"]):
                raise WireError("expected a signature of 64 bytes, and the payload's digest")
            return Head(fields, signature)
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"not a signed head: {error}") from error

    def to_bytes(self, kind: int, payload: bytes) -> bytes:
        """The bytes of a signed file."""
        return container.to_bytes(kind, self.to_json(), {"payload": payload})


def read_signed(data: bytes | memoryview, kind: int) -> tuple[Head, bytes]:
    """Head and payload of a signed file, which belong together; the signature is not checked."""
    opened = container.from_bytes(data, kind=kind)
    head = Head.from_json(opened.header)
    if list(opened.frames) != ["payload"]:
        raise WireError("expected just the section payload")
    payload = opened.section("payload", opened.frames["payload"][1])
    opened.finish()
    if hashlib.sha256(payload).hexdigest() != head.payload_digest:
        raise WireError("the payload is not the one that was signed")
    return head, payload
