"""Keys of a private round: Ed25519 to sign, X25519 (HPKE) to seal boxes for a keyholder.

Everybody has both, in one file; the other file, ``.pub``, is for the others.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safle.basics import atomic
from safle.basics.places import read_capped
from safle.errors import FederationError, MissingExtra, WireError
from safle.wire.contribution import check_client

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
except ImportError:
    raise MissingExtra("cryptography", "safle[private]", "a private sum") from None

PRIVATE, PUBLIC = "safle-private-key-1", "safle-public-key-1"
MAX_FILE_BYTES = 4096
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


@dataclass(frozen=True)
class PublicKey:
    """Whose signatures are true, and whom boxes can be sealed for; 32 bytes each.

    Examples
    --------
    >>> key = PrivateKey.new("hospital-a")
    >>> key.public.check(b"text", key.sign(b"text"))
    >>> key.open_box(key.public.seal_box(b"seed", b"round"), b"round")
    b'seed'
    """

    name: str
    signing: bytes
    sealing: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both keys, to be compared over the telephone or listed in a policy."""
        return hashlib.sha256(self.signing + self.sealing).hexdigest()

    def check(self, text: bytes, signature: bytes) -> None:
        """Raise `FederationError` unless the owner of this key has signed ``text``."""
        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, text)
        except InvalidSignature:
            raise FederationError(
                f"the signature is not {self.name}'s: the file was altered, or made by another"
            ) from None

    def seal_box(self, content: bytes, bound_to: bytes) -> bytes:
        """Encrypt for the owner of this key; opens only with the same ``bound_to``."""
        try:
            key = X25519PublicKey.from_public_bytes(self.sealing)
            return _SUITE.encrypt(content, key, info=bound_to)
        except ValueError as error:
            raise FederationError(f"{self.name}'s key cannot be sealed for: {error}") from error

    def to_json(self) -> dict[str, str]:
        """The key as JSON values."""
        keys = {"signing": self.signing.hex(), "sealing": self.sealing.hex()}
        return {"format": PUBLIC, "name": self.name, **keys}

    @staticmethod
    def from_json(content: Any) -> PublicKey:
        """Read `to_json` back; `WireError` if it is not a public key."""
        return PublicKey(*_fields(content, PUBLIC))

    def save(self, path: Path) -> None:
        """Write the key's file."""
        atomic.write_text(path, json.dumps(self.to_json(), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> PublicKey:
        """Read a public key's file."""
        return PublicKey.from_json(_read(path))


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """The secret halves of a `PublicKey`; 32 bytes each.

    Examples
    --------
    >>> key = PrivateKey.new("hospital-a")
    >>> key.public.name, len(key.sign(b"text"))
    ('hospital-a', 64)
    """

    name: str
    signing: bytes
    opening: bytes

    @staticmethod
    def new(name: str) -> PrivateKey:
        """Fresh keys of a client, a keyholder or an operator."""
        signing, opening = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        return PrivateKey(
            check_client(name), signing.private_bytes_raw(), opening.private_bytes_raw()
        )

    @property
    def public(self) -> PublicKey:
        signing = Ed25519PrivateKey.from_private_bytes(self.signing).public_key()
        opening = X25519PrivateKey.from_private_bytes(self.opening).public_key()
        return PublicKey(self.name, signing.public_bytes_raw(), opening.public_bytes_raw())

    def sign(self, text: bytes) -> bytes:
        """64 bytes; the same for the same text."""
        return Ed25519PrivateKey.from_private_bytes(self.signing).sign(text)

    def open_box(self, box: bytes, bound_to: bytes) -> bytes:
        """What was sealed for this key; `FederationError` if it was not, or bound to another."""
        key = X25519PrivateKey.from_private_bytes(self.opening)
        try:
            return _SUITE.decrypt(box, key, info=bound_to)
        except (InvalidTag, ValueError):
            raise FederationError(
                f"a box does not open with {self.name}'s key: it was sealed for another key, "
                "round, client or file"
            ) from None

    def save(self, path: Path) -> None:
        """Write the key's file, for its owner alone; never over another key."""
        keys = {"signing": self.signing.hex(), "opening": self.opening.hex()}
        text = json.dumps({"format": PRIVATE, "name": self.name, **keys}, indent=1) + "\n"
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(text)

    @staticmethod
    def load(path: Path) -> PrivateKey:
        """Read a private key's file."""
        return PrivateKey(*_fields(_read(path), PRIVATE))


def _read(path: Path) -> Any:
    data = read_capped(path, MAX_FILE_BYTES, "a key")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{path} is not a key of safle: {error}") from error


def _fields(content: Any, form: str) -> tuple[str, bytes, bytes]:
    other = "opening" if form == PRIVATE else "sealing"
    try:
        if content["format"] != form or set(content) != {"format", "name", "signing", other}:
            raise WireError(f"expected a key of format {form}")
        first, second = (bytes.fromhex(content[name]) for name in ("signing", other))
        if len(first) != 32 or len(second) != 32:
            raise WireError("expected keys of 32 bytes")
        return check_client(content["name"]), first, second
    except (KeyError, TypeError, ValueError) as error:
        raise WireError(f"not a key: {error}; make one with: safle private keys") from error
