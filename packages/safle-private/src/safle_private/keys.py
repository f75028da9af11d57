"""Keys of a private round, and files that they sign.

Everybody has two keys in one file: Ed25519 to sign, X25519 (HPKE) to open boxes. The file
for other parties is JSON of ``format`` ("safle-public-key-1"), ``name``, ``signing`` and
``sealing``, 32 bytes each in hexadecimal.

A signed file has the header ``{"head": {...}, "signature": HEX}`` and one section, ``payload``. The
head holds ``kind`` (a word), ``payload`` (the section's SHA-256) and fields of its kind; the
signature is Ed25519 over the head as canonical JSON. A head without its payload still proves who
sent which bytes: requests to keyholders hold nothing else of a client's file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from safle import check_client, container, is_digest
from safle.basics import atomic, read_capped
from safle.errors import FederationError, WireError

MAX_FILE_BYTES = 4096
Hexadecimal = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""32 bytes: a key, or a digest."""
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


class _KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format"):
    """A party's name and keys, in a file of JSON."""

    half: ClassVar[str]
    name: str

    def __post_init__(self) -> None:
        check_client(self.name)

    def _text(self) -> str:
        return json.dumps(msgspec.to_builtins(self), indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a key's file."""
        data = read_capped(path, MAX_FILE_BYTES, "a key")
        try:
            # Given one type alone, msgspec would accept a file without a format.
            key: object = msgspec.json.decode(data, type=PublicKey | PrivateKey)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            key = None
        if not isinstance(key, cls):
            # The message quotes nothing of the file: it may be the secret.
            raise WireError(
                f"{path} is not a {cls.half} key of safle; make one with: safle private keys"
            ) from None
        return key


class PublicKey(_KeyFile, frozen=True, tag="safle-public-key-1"):
    """Keys that check a party's signatures and seal boxes for it.

    Examples
    --------
    >>> key = PrivateKey.new("hospital-a")
    >>> key.public.check(b"text", key.sign(b"text"))
    >>> key.open_box(key.public.seal_box(b"seed", b"round"), b"round")
    b'seed'
    """

    half: ClassVar[str] = "public"
    signing: Hexadecimal
    sealing: Hexadecimal

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both keys, to compare over the telephone or to list in a policy."""
        return hashlib.sha256(bytes.fromhex(self.signing + self.sealing)).hexdigest()

    def check(self, text: bytes, signature: bytes) -> None:
        """Raise `FederationError` unless the owner of this key has signed ``text``."""
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.signing))
        try:
            key.verify(signature, text)
        except InvalidSignature:
            raise FederationError(
                f"the signature is not {self.name}'s: the file was altered, or made by another"
            ) from None

    def seal_box(self, content: bytes, bound_to: bytes) -> bytes:
        """Encrypt for the owner of this key; the box opens only with the same ``bound_to``."""
        try:
            key = X25519PublicKey.from_public_bytes(bytes.fromhex(self.sealing))
            return _SUITE.encrypt(content, key, info=bound_to)
        except ValueError as error:
            raise FederationError(f"no box can be sealed for {self.name}'s key: {error}") from error

    def save(self, path: Path) -> None:
        """Write the key's file."""
        atomic.write_text(path, self._text())


class PrivateKey(_KeyFile, frozen=True, tag="safle-private-key-1"):
    """The secret halves of a `PublicKey`.

    Examples
    --------
    >>> key = PrivateKey.new("hospital-a")
    >>> key.public.name, len(key.sign(b"text"))
    ('hospital-a', 64)
    """

    half: ClassVar[str] = "private"
    signing: Hexadecimal
    opening: Hexadecimal

    def __repr__(self) -> str:
        return f"<PrivateKey of {self.name}>"

    @staticmethod
    def new(name: str) -> PrivateKey:
        """Fresh keys of a client, a keyholder or an operator."""
        signing = Ed25519PrivateKey.generate().private_bytes_raw().hex()
        opening = X25519PrivateKey.generate().private_bytes_raw().hex()
        return PrivateKey(name, signing, opening)

    @property
    def _signing_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.signing))

    @property
    def _opening_key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(bytes.fromhex(self.opening))

    @property
    def public(self) -> PublicKey:
        signing = self._signing_key.public_key().public_bytes_raw().hex()
        sealing = self._opening_key.public_key().public_bytes_raw().hex()
        return PublicKey(self.name, signing, sealing)

    def sign(self, text: bytes) -> bytes:
        """A signature of 64 bytes; the same for the same text."""
        return self._signing_key.sign(text)

    def open_box(self, box: bytes, bound_to: bytes) -> bytes:
        """Content of a box; `FederationError` unless sealed for this key and this ``bound_to``."""
        try:
            return _SUITE.decrypt(box, self._opening_key, info=bound_to)
        except (InvalidTag, ValueError):
            raise FederationError(
                f"a box does not open with {self.name}'s key: it was sealed for another key, "
                "round, client or file"
            ) from None

    def save(self, path: Path) -> None:
        """Write the key's file, for its owner alone; never over another key."""
        atomic.write_new(path, self._text())


@dataclass(frozen=True)
class SignedHeader:
    """What a party says of a payload, and its signature."""

    fields: Mapping[str, Any]
    signature: bytes

    @staticmethod
    def sign(
        key: PrivateKey, kind: str, payload: bytes | memoryview, **fields: Any
    ) -> SignedHeader:
        """The head of a payload."""
        signed = {**fields, "kind": kind, "payload": hashlib.sha256(payload).hexdigest()}
        return SignedHeader(signed, key.sign(container.canonical(signed)))

    @property
    def payload_digest(self) -> str:
        return str(self.fields["payload"])

    def check(self, key: PublicKey, kind: str) -> None:
        """Refuse a head of another kind, and one that the owner of the key has not signed."""
        if self.fields.get("kind") != kind:
            raise FederationError(f"a head of kind {self.fields.get('kind')!r}; expected {kind!r}")
        key.check(container.canonical(self.fields), self.signature)

    def digest(self) -> str:
        """Identity of what was signed."""
        return hashlib.sha256(container.canonical(self.fields)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The head as JSON values."""
        return {"head": dict(self.fields), "signature": self.signature.hex()}

    @staticmethod
    def from_json(content: Any) -> SignedHeader:
        """Read `to_json` back; nothing of it is verified yet."""
        try:
            fields = content["head"]
            signature = bytes.fromhex(content["signature"])
            if set(content) != {"head", "signature"} or not isinstance(fields, dict):
                raise WireError("expected a head and its signature")
            if len(signature) != 64 or not is_digest(fields["payload"]):
                raise WireError("expected a signature of 64 bytes, and the payload's digest")
            # Nobody can have signed fields without a canonical text.
            container.canonical(fields)
            return SignedHeader(fields, signature)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise WireError(f"not a signed head: {error}") from error

    def to_bytes(self, file_type: int, payload: bytes) -> bytes:
        """The bytes of a signed file."""
        return container.to_bytes(file_type, self.to_json(), {"payload": payload})


@dataclass(frozen=True)
class SignedFile:
    """A signed file whose payload is still compressed: its reader checks head and size first."""

    head: SignedHeader
    opened: container.Container

    @staticmethod
    def read(data: bytes | memoryview, file_type: int) -> SignedFile:
        """Open a signed file; neither signature nor payload is checked yet."""
        return SignedFile.of(container.from_bytes(data, file_type=file_type))

    @staticmethod
    def of(opened: container.Container) -> SignedFile:
        """The same, of a file that was opened."""
        if list(opened.frames) != ["payload"]:
            raise WireError("not a signed file: expected just the section payload")
        return SignedFile(SignedHeader.from_json(opened.header), opened)

    def decompress(self, size: int) -> bytes:
        """The payload, if it has this size and is the one that was signed."""
        payload = self.opened.section("payload", size)
        self.opened.finish()
        if hashlib.sha256(payload).hexdigest() != self.head.payload_digest:
            raise WireError("the payload is not the one that was signed")
        return payload
