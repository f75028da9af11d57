"""Masks: AES-256 in counter mode under a key that HKDF derives from a fresh seed."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from safle.errors import MissingExtra
from safle.private.vector import Bytes, Sizes

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise MissingExtra("cryptography", "safle[private]", "a private sum") from None

SEED_BYTES = 32
_ZEROS = bytes(1 << 17)
"""What is encrypted at a time: enough to make calls cheap, and stays in the cache."""


def new_seed() -> bytes:
    """A seed for one mask, never used again: two vectors under one mask give each other away."""
    return os.urandom(SEED_BYTES)


def derive_key(seed: bytes, round_digest: str, client: str, keyholder: str) -> bytes:
    """The key of a mask: another round, client or keyholder has another."""
    info = f"safle mask\n{keyholder}\n{client}".encode()
    return HKDF(SHA256(), 32, salt=bytes.fromhex(round_digest), info=info).derive(seed)


def add_masks(sizes: Sizes, target: Bytes, keys: Iterable[bytes]) -> None:
    """Add the mask of every key to a vector, in little memory beside it."""
    # The key is used once, so the counter may begin anywhere.
    ciphers = [Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor() for key in keys]
    stream = np.empty(len(_ZEROS), np.uint8)
    for entries in sizes.parts(target):
        at_once = len(_ZEROS) // entries.itemsize
        for first in range(0, len(entries), at_once):
            chunk = entries[first : first + at_once]
            for cipher in ciphers:
                cipher.update_into(memoryview(_ZEROS)[: chunk.nbytes], stream)
                chunk += stream[: chunk.nbytes].view(chunk.dtype)
