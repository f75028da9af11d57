"""Masks: AES-256 in counter mode under a key that HKDF derives from a fresh seed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from safle.errors import MissingExtra
from safle.private import kernels
from safle.private.vector import Block, Bytes, tiles

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise MissingExtra("cryptography", "safle[private]", "a private sum") from None

SEED_BYTES = 32
_ZEROS = bytes(8 * kernels.RUN)


def new_seed() -> bytes:
    """A seed for one mask, never used again: two vectors under one mask give each other away."""
    return os.urandom(SEED_BYTES)


def derive_key(seed: bytes, round_digest: str, client: str, keyholder: str) -> bytes:
    """The key of a mask: another round, client or keyholder has another."""
    info = f"safle mask\n{keyholder}\n{client}".encode()
    return HKDF(SHA256(), 32, salt=bytes.fromhex(round_digest), info=info).derive(seed)


def add_masks(blocks: Sequence[Block], target: Bytes, keys: Iterable[bytes]) -> None:
    """Add the mask of every key to a vector: a few tiles of memory."""
    # The key is used once, so the counter may begin anywhere.
    streams = [Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor() for key in keys]
    stream, carry = np.empty(len(_ZEROS), np.uint8), np.empty(kernels.TILE, np.uint8)
    for place, size, width in tiles(blocks):
        zeros = memoryview(_ZEROS)[: size * width]
        for cipher in streams:
            cipher.update_into(zeros, stream)
            kernels.add_tiles(target[place], stream, size, width, carry)
