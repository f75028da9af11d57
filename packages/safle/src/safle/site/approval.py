"""Approval: a signature under a contribution and its release sheets, in a file of its own.

Ed25519, by a key as ssh-keygen or OpenSSL make it. A roster is a list of public keys, one line
each as in ``id_ed25519.pub``; a store that has one takes only what somebody on it has signed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from safle.basics import atomic
from safle.errors import ApprovalError, MissingExtra
from safle.server.contribution import APPROVAL, PAGE, TEXT
from safle.site.log import now
from safle.wire import container

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
except ImportError:
    raise MissingExtra("cryptography", "safle[private]", "signing contributions") from None

FORMAT = "safle-approval-1"
LARGEST_TEXT = 1 << 20
"""Bytes of a sheet, a key or a roster: anything larger is not one."""
KIND = "ssh-ed25519"


@dataclass(frozen=True)
class Approval:
    """Who has agreed that a contribution leaves.

    Attributes
    ----------
    contribution : SHA-256 of its bytes
    sheets : SHA-256 of each of its release sheets, by how their names end
    time : when it was signed, in UTC
    key : the public key, as OpenSSH writes it
    signature : under all of that
    """

    contribution: str
    sheets: Mapping[str, str]
    time: str
    key: str
    signature: bytes = b""

    def signed_bytes(self) -> bytes:
        """What is signed."""
        fields = ("contribution", "sheets", "time", "key")
        content = {"format": FORMAT} | {name: getattr(self, name) for name in fields}
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    def to_bytes(self) -> bytes:
        """The approval as a file."""
        signature = base64.b64encode(self.signature).decode()
        return json.dumps(json.loads(self.signed_bytes()) | {"signature": signature}).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Approval:
        """The inverse of `to_bytes`; `ApprovalError` for anything else."""
        try:
            content = json.loads(data)
            if content.pop("format") != FORMAT:
                raise ValueError(f"expected format {FORMAT}")
            signature = base64.b64decode(content.pop("signature"), validate=True)
            approval = Approval(**content, signature=signature)
            if not all(isinstance(text, str) for text in (approval.contribution, approval.key)):
                raise ValueError("digest and key are not text")
            # Half a surrogate pair could be neither printed nor logged.
            (approval.contribution + approval.key).encode()
            return approval
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ApprovalError(f"not an approval ({error}); sign again: safle approve") from error

    def verify(self, data: bytes) -> None:
        """Raise `ApprovalError` unless this is a signature under the contribution ``data``."""
        if self.contribution != hashlib.sha256(data).hexdigest():
            raise ApprovalError(
                f"the approval is of another contribution ({self.contribution[:12]}…); get the "
                "one that belongs to this file"
            )
        try:
            _load_public(self.key).verify(self.signature, self.signed_bytes())
        except InvalidSignature as error:
            raise ApprovalError(
                "the approval's signature does not match: it was changed; sign again: safle approve"
            ) from error


def approve(path: Path, key: Path, password: bytes | None = None) -> Approval:
    """Sign the contribution at ``path`` and its sheets; the approval is written beside it.

    Parameters
    ----------
    key : a private key file, of OpenSSH or PEM
    password : of the key; None if it has none
    """
    private = _read_key(key, password)
    digest = hashlib.sha256(container.read_limited(path)).hexdigest()
    sheets = {end: _read_sheet(path, end, digest) for end in (TEXT, PAGE)}
    public = private.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    unsigned = Approval(digest, sheets, now(), public.decode())
    approval = replace(unsigned, signature=private.sign(unsigned.signed_bytes()))
    atomic.write_bytes(path.with_name(path.name + APPROVAL), approval.to_bytes())
    return approval


def needs_password(key: Path) -> bool:
    """Whether a private key can be read only with its password."""
    try:
        _read_key(key, None)
    except TypeError:
        return True
    return False


def parse_roster(text: str) -> dict[str, str]:
    """Public keys and whose they are: lines of ``ssh-ed25519 KEY NAME``.

    Examples
    --------
    >>> parse_roster("# nobody yet")
    {}
    """
    lines = [line.split(maxsplit=2) for line in text.splitlines()]
    found = {}
    for words in lines:
        if words and not words[0].startswith("#"):
            if len(words) < 2 or words[0] != KIND:
                raise ApprovalError(
                    f"roster line {' '.join(words)[:60]!r}; expected '{KIND} KEY NAME', as in "
                    "id_ed25519.pub"
                )
            _load_public(" ".join(words[:2]))
            found[" ".join(words[:2])] = words[2] if len(words) > 2 else words[1][-12:]
    return found


def check_approved(roster: Mapping[str, str], data: bytes, approval: bytes) -> str:
    """Whose approval it is; `ApprovalError` unless somebody on the roster signed ``data``."""
    if not approval:
        raise ApprovalError(
            "not signed; this store takes only what its roster has signed: sign it with 'safle "
            f"approve', and bring the file *{APPROVAL} along"
        )
    found = Approval.from_bytes(approval)
    if found.key not in roster:
        raise ApprovalError(
            f"signed by a key that is not on the roster: {found.key[:80]}; add it to the roster if "
            "you trust it"
        )
    found.verify(data)
    return roster[found.key]


def _read_sheet(path: Path, end: str, digest: str) -> str:
    sheet = path.with_name(path.name + end)
    data = container.read_limited(sheet, limit=LARGEST_TEXT)
    if digest.encode() not in data:
        raise ApprovalError(f"{sheet} is not about {path.name} as it is; count again")
    return hashlib.sha256(data).hexdigest()


def _read_key(path: Path, password: bytes | None) -> Ed25519PrivateKey:
    data = container.read_limited(path, limit=LARGEST_TEXT)
    load = form.load_ssh_private_key if b"OPENSSH" in data else form.load_pem_private_key
    try:
        key = load(data, password)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ApprovalError(f"{path}: not a private key, or a wrong password: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ApprovalError(f"{path}: not an Ed25519 key; make one with: ssh-keygen -t ed25519")
    return key


def _load_public(text: str) -> Ed25519PublicKey:
    try:
        key = form.load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ApprovalError(f"{text[:60]!r} is not a public key: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ApprovalError(f"{text[:60]!r} is not an Ed25519 key")
    return key
