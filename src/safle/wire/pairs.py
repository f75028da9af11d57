"""The gram's expert blocks on the wire: only what the margins leave free, by expectation.

The most frequent code of every expert is not sent: the margins give it back. The rest
is gathered into streams of like expectation and packed 8, 4, 2 or 1 to a byte; a value
that does not fit its bits is continued in ``excess``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import WireError
from safle.kernels import pairs as kernels
from safle.wire.planes import plane_count, to_planes

PER_BYTE = (8, 4, 2, 1)
MEAN_LIMITS = (0.12, 0.6, 5.0)
"""Largest mean of a stream that is packed 8, 4 or 2 to a byte."""


@dataclass(frozen=True)
class Streams:
    """Which entries are sent and where they go: follows from the diagonal alone."""

    kept: NDArray[np.int64]
    dropped: NDArray[np.int64]
    ends: NDArray[np.int64]
    classes_of: NDArray[np.int64]
    starts: NDArray[np.int64]
    firsts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.sizes.sum())


def magnitude(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """q(c) = floor(2 log2 c) of positive counts below 2**31, in integers."""
    squares = counts * counts
    # frexp gives the bit length exactly only below 2**53, so shift large ones down first.
    large = squares >= 1 << 52
    lengths = np.frexp(np.where(large, squares >> 32, squares).astype(np.float64))[1]
    return (lengths + np.where(large, 32, 0) - 1).astype(np.int64)


def plan(diagonal: NDArray[np.int64], offsets: NDArray[np.int64]) -> Streams:
    """The streams of a gram with these code counts, int64, (seen,)."""
    experts = len(offsets) - 1
    experts_of = np.repeat(np.arange(experts), np.diff(offsets))
    # Most frequent first, lowest code on ties: the first of each expert is dropped.
    order = np.lexsort((np.arange(len(diagonal)), -diagonal, experts_of))
    dropped = np.sort(order[offsets[:-1]]).astype(np.int64)
    keep = np.ones(len(diagonal), bool)
    keep[dropped] = False
    kept = np.flatnonzero(keep)
    owners = experts_of[kept].astype(np.int64)
    classes_of = magnitude(diagonal[kept])
    classes_of -= classes_of.min(initial=62)
    class_count = int(classes_of.max(initial=0)) + 1
    starts, sizes = kernels.row_starts(kept, owners, classes_of, class_count)
    ends = np.searchsorted(owners, owners, side="right").astype(np.int64)
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return Streams(kept, dropped, ends, classes_of, starts, firsts, sizes)


def value_type(largest: int) -> type[np.unsignedinteger[Any]]:
    """The smallest of uint16 and uint32 for values up to ``largest``."""
    return np.uint16 if largest < 1 << 16 else np.uint32


def encode_pairs(
    gram: NDArray[Any], dim: int, streams: Streams, sample_count: int
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Header fields and sections of the expert blocks."""
    values = np.empty(streams.total, value_type(sample_count))
    s = streams
    kernels.gather(gram, dim, s.kept, s.ends, s.classes_of, s.starts, s.firsts, values)
    packings, packed, rests = [], [], []
    for first, size in zip(s.firsts, s.sizes, strict=True):
        stream = values[first : first + size]
        per_byte = _packing(stream)
        packings.append(per_byte)
        part = np.empty(-(-len(stream) // per_byte), np.uint8)
        kernels.pack(stream, per_byte, part)
        packed.append(part)
        rests.append(kernels.excess(stream, (1 << 8 // per_byte) - 1))
    rest = np.concatenate(rests)
    planes = plane_count(rest)
    header = {"packings": packings, "excess": [len(rest), planes]}
    sections = {"pairs": np.concatenate(packed).tobytes(), "excess": to_planes(rest, planes)}
    return header, sections


def _packing(stream: NDArray[Any]) -> int:
    mean = float(stream.sum(dtype=np.int64)) / max(len(stream), 1)
    return PER_BYTE[int(np.searchsorted(MEAN_LIMITS, mean, side="left"))]


def packed_bytes(streams: Streams, packings: Any) -> int:
    """Raw size of the ``pairs`` section; `WireError` if ``packings`` are not valid."""
    if not isinstance(packings, list) or len(packings) != len(streams.sizes):
        raise WireError(f"expected {len(streams.sizes)} packings")
    if not all(type(p) is int and p in PER_BYTE for p in packings):
        raise WireError(f"a packing is not one of {PER_BYTE}")
    return sum(-(-size // p) for size, p in zip(streams.sizes.tolist(), packings, strict=True))


def decode_pairs(
    gram: NDArray[Any],
    dim: int,
    streams: Streams,
    sample_count: int,
    packings: list[int],
    pairs: bytes,
    rest: NDArray[np.int64],
) -> None:
    """Write the sent entries into ``gram``; `WireError` if the excess does not fit."""
    values = np.empty(streams.total, value_type(sample_count))
    packed = np.frombuffer(pairs, np.uint8)
    if len(rest) and (rest.min() < 0 or rest.max() > sample_count):
        raise WireError("an entry exceeds the sample count")
    at = used = 0
    s = streams
    for first, size, per_byte in zip(s.firsts, s.sizes, packings, strict=True):
        stream = values[first : first + size]
        taken = -(-size // per_byte)
        kernels.unpack(packed[at : at + taken], per_byte, stream)
        at += taken
        used = kernels.add_excess(stream, (1 << 8 // per_byte) - 1, rest, used)
        if used < 0:
            raise WireError("the excess values end too soon")
    if used != len(rest):
        raise WireError("there are more excess values than entries that need them")
    kernels.scatter(gram, dim, s.kept, s.ends, s.classes_of, s.starts, s.firsts, values)
