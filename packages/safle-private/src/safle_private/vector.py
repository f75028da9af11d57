"""Vectors of integers modulo 2^64 and 2^32, and the masks that are added to them.

    ``wide entries as little-endian uint64 | narrow entries as little-endian uint32``

Negative entries are in two's complement. An entry is narrow if the sum of all clients fits 32 bits
whatever they count, and wide if not: counts of samples are wide, and so are entries that one sample
may change by more than ``floor((2^31 - 1 - noise) / most_total_samples)``, but by at least nought.
The noise is 0 if the sum opens exactly; else the first power of two from 16 sqrt(keyholders) times
its largest scale in any class sum or product, plus 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from safle.basics import require_free_memory
from safle.errors import CountOverflow, InvariantError

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
MOST_NARROW = (1 << 31) - 1
MOST_WIDE = (1 << 63) - 1
SEED_BYTES = 32
_ZEROS = bytes(1 << 17)
"""Zeros to encrypt at a time: enough to make calls cheap, few enough for the cache."""


class Sizes(NamedTuple):
    """How many entries of a vector are wide, and how many narrow."""

    wide: int
    narrow: int

    @staticmethod
    def of(wide: Mask) -> Sizes:
        """Sizes of a vector, by the mask of its wide entries."""
        count = int(wide.sum())
        return Sizes(count, len(wide) - count)

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


def pack(wide: Mask, entries: Integers) -> Bytes:
    """The entries as a vector, uint8; ``wide`` says which take 64 bits."""
    sizes = Sizes.of(wide)
    vector = sizes.zeros()
    first, rest = sizes.parts(vector)
    first[:] = entries[wide].view(np.uint64)
    rest[:] = entries[~wide].astype(np.uint32)
    return vector


def unpack(wide: Mask, vector: Bytes) -> Integers:
    """The entries of a vector without masks: the inverse of `pack`."""
    first, rest = Sizes.of(wide).parts(vector)
    entries = np.empty(len(wide), np.int64)
    entries[wide] = first.astype(np.uint64).view(np.int64)
    entries[~wide] = rest.astype(np.uint32).view(np.int32)
    return entries


def find_wide(bounds: Integers, most_total_samples: int, noise: int) -> Mask:
    """Which entries take 64 bits, by the most that one sample adds to each; 0 counts samples."""
    require_vector(9 * len(bounds))
    if int(bounds.max(initial=1)) * most_total_samples + noise > MOST_WIDE:
        raise CountOverflow(
            f"at most {most_total_samples} samples, and their noise, take more than 64 bits a "
            "number: declare fewer samples"
        )
    wide: Mask = bounds > max(0, MOST_NARROW - noise) // most_total_samples
    wide[bounds == 0] = True
    return wide


def check_opened(
    entries: Integers, bounds: Integers, most_total_samples: int, noise: int, room: int
) -> None:
    """Refuse an opened sum whose entries nobody can have counted; ``room`` is for counts."""
    counts = bounds == 0
    high = np.where(counts, most_total_samples + room, bounds * most_total_samples + noise)
    low = np.where(counts, -room, -high)
    outside = (entries < low) | (entries > high)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvariantError(
            f"the opened sum has an entry {entries[at]}; possible are {low[at]} to {high[at]}: a "
            "client or a keyholder did not keep to the round; begin a new one"
        )


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
