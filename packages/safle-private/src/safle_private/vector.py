"""Vectors of integers modulo 2^64 and 2^32, and the masks that are added to them.

    ``wide entries as little-endian uint64 | narrow entries as little-endian uint32``

Negative entries are in two's complement. An entry is narrow if the sum of all clients fits 32 bits
whatever they count, and wide if not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from safle.basics import require_free_memory
from safle_private.noisy import Privacy

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
MOST_NARROW = (1 << 31) - 1
MOST_WIDE = (1 << 63) - 1
SEED_BYTES = 32
_ZEROS = bytes(1 << 17)
"""Zeros to encrypt at a time: enough to make calls cheap, few enough for the cache."""


class Space(Protocol):
    """What a round adds up: it turns a value into integers, and integers into a value."""

    @property
    def most_total_samples(self) -> int:
        """Most samples of all clients together."""

    @property
    def privacy(self) -> Privacy | None:
        """What the noise of each keyholder promises; None if the sum opens exactly."""

    @property
    def wide(self) -> Mask:
        """Which entries take 64 bits; the others take 32."""

    def entries(self, value: Any) -> Integers:
        """The integers of a client's value; a `SafleError` if it is not of this space."""

    def value(self, entries: Integers) -> Any:
        """The value of a sum, verified; a `SafleError` if the integers cannot be one."""


class Sizes(NamedTuple):
    """How many entries of a vector are wide, and how many narrow."""

    wide: int
    narrow: int

    @staticmethod
    def of(space: Space) -> Sizes:
        """Sizes of the vectors of a round."""
        wide = int(space.wide.sum())
        return Sizes(wide, len(space.wide) - wide)

    @property
    def bytes(self) -> int:
        """Bytes of a vector."""
        return 8 * self.wide + 4 * self.narrow

    def parts(self, vector: Bytes) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
        """The wide entries of a vector, and the narrow ones: views."""
        yield vector[: 8 * self.wide].view("<u8")
        yield vector[8 * self.wide :].view("<u4")

    def zeros(self) -> Bytes:
        """A vector of zeros; refused before it is made if this machine cannot hold it."""
        require_vector(self.bytes)
        return np.zeros(self.bytes, np.uint8)

    def add(self, target: Bytes, other: Bytes, sign: int = 1) -> None:
        """``target += sign * other``, each entry modulo its own power of two."""
        combine = np.add if sign > 0 else np.subtract
        for total, added in zip(self.parts(target), self.parts(other), strict=True):
            combine(total, added, out=total)


def require_vector(size: int) -> None:
    """Refuse a vector that this machine cannot hold."""
    require_free_memory(
        size,
        purpose="a vector of a private round",
        advice="use an encoder with fewer columns, or with smaller tables",
    )


def pack(space: Space, entries: Integers) -> Bytes:
    """The entries as a vector, uint8."""
    sizes = Sizes.of(space)
    vector = sizes.zeros()
    wide, narrow = sizes.parts(vector)
    wide[:] = entries[space.wide].view(np.uint64)
    narrow[:] = entries[~space.wide].astype(np.uint32)
    return vector


def unpack(space: Space, vector: Bytes) -> Any:
    """The value of a vector without masks."""
    wide, narrow = Sizes.of(space).parts(vector)
    entries = np.empty(len(space.wide), np.int64)
    entries[space.wide] = wide.astype(np.uint64).view(np.int64)
    entries[~space.wide] = narrow.astype(np.uint32).view(np.int32)
    return space.value(entries)


def derive_key(seed: bytes, round_digest: str, client: str, keyholder: str) -> bytes:
    """The key of a mask: every round, client and keyholder has its own."""
    info = f"safle mask\n{keyholder}\n{client}".encode()
    return HKDF(SHA256(), 32, salt=bytes.fromhex(round_digest), info=info).derive(seed)


def add_masks(sizes: Sizes, target: Bytes, keys: Iterable[bytes]) -> None:
    """Add the mask of every key to a vector, in little memory beside it."""
    # Each key is used once, so the counter may begin at zero.
    ciphers = [Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor() for key in keys]
    stream = np.empty(len(_ZEROS), np.uint8)
    for entries in sizes.parts(target):
        at_once = len(_ZEROS) // entries.itemsize
        for first in range(0, len(entries), at_once):
            chunk = entries[first : first + at_once]
            for cipher in ciphers:
                cipher.update_into(memoryview(_ZEROS)[: chunk.nbytes], stream)
                chunk += stream[: chunk.nbytes].view(chunk.dtype)
