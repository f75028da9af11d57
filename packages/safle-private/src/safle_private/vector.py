"""Vectors of integers modulo 2^64 and 2^32, and the masks that are added to them.

    ``wide entries as little-endian uint64 | narrow entries as little-endian uint32``

Negative entries are in two's complement. An entry is narrow if the sum of all clients fits 32 bits
for any data, and wide if not: counts of samples are wide, and so are entries that one sample
may change by more than ``floor((2^31 - 1 - noise) / most_total_samples)``, but at least 0. The
noise is 0 if the sum opens exactly; else the first power of two from 16 sqrt(keyholders) times its
largest scale in any class sum or product, plus 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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


@dataclass(frozen=True, eq=False)
class Moduli:
    """Which entries of a vector are modulo 2^64; all others are modulo 2^32.

    Attributes
    ----------
    wide : bool, (entries,)
    """

    wide: Mask

    @staticmethod
    def choose(bounds: Integers, most_total_samples: int, noise: int) -> Moduli:
        """By the most that one sample adds to each entry; 0 counts samples."""
        _require_vector(9 * len(bounds))
        if int(bounds.max(initial=1)) * most_total_samples + noise > MOST_WIDE:
            raise CountOverflow(
                f"at most {most_total_samples} samples, and their noise, take more than 64 bits a "
                "number: declare fewer samples"
            )
        widest = max(0, MOST_NARROW - noise) // most_total_samples
        return Moduli((bounds > widest) | (bounds == 0))

    @cached_property
    def _wide_bytes(self) -> int:
        return 8 * int(self.wide.sum())

    @property
    def size(self) -> int:
        """Bytes of a vector."""
        return 4 * len(self.wide) + self._wide_bytes // 2

    def parts(self, vector: Bytes) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
        """The wide entries of a vector, and the narrow ones: views."""
        yield vector[: self._wide_bytes].view("<u8")
        yield vector[self._wide_bytes :].view("<u4")

    def zeros(self) -> Bytes:
        """A vector of zeros; refused before it is made if this machine cannot hold it."""
        _require_vector(self.size)
        return np.zeros(self.size, np.uint8)

    def pack(self, entries: Integers) -> Bytes:
        """The entries as a vector, uint8."""
        vector = self.zeros()
        first, rest = self.parts(vector)
        first[:] = entries[self.wide].view(np.uint64)
        rest[:] = entries[~self.wide].astype(np.uint32)
        return vector

    def unpack(self, vector: Bytes) -> Integers:
        """The entries of a vector without masks: the inverse of `pack`."""
        first, rest = self.parts(vector)
        entries = np.empty(len(self.wide), np.int64)
        entries[self.wide] = first.astype(np.uint64).view(np.int64)
        entries[~self.wide] = rest.astype(np.uint32).view(np.int32)
        return entries

    def add(self, target: Bytes, other: Bytes) -> None:
        """``target += other``, each entry modulo its own power of two."""
        for total, added in zip(self.parts(target), self.parts(other), strict=True):
            np.add(total, added, out=total)

    def subtract(self, target: Bytes, other: Bytes) -> None:
        """``target -= other``, likewise."""
        for total, taken in zip(self.parts(target), self.parts(other), strict=True):
            np.subtract(total, taken, out=total)

    def add_masks(self, target: Bytes, keys: Iterable[bytes]) -> None:
        """Add the mask of every key to a vector, in little memory beside it."""
        # Each key is used once, so the counter may begin at zero.
        ciphers = [Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor() for key in keys]
        stream = np.empty(len(_ZEROS), np.uint8)
        for entries in self.parts(target):
            at_once = len(_ZEROS) // entries.itemsize
            for first in range(0, len(entries), at_once):
                chunk = entries[first : first + at_once]
                for cipher in ciphers:
                    cipher.update_into(memoryview(_ZEROS)[: chunk.nbytes], stream)
                    chunk += stream[: chunk.nbytes].view(chunk.dtype)


def _require_vector(size: int) -> None:
    """Refuse a vector that this machine cannot hold."""
    require_free_memory(
        size,
        purpose="a vector of a private round",
        advice="use an encoder with fewer columns, or with smaller tables",
    )


def check_opened(
    entries: Integers, bounds: Integers, most_total_samples: int, noise: int, room: int
) -> None:
    """Refuse an opened sum with impossible entries; noise changes a count by at most ``room``."""
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
