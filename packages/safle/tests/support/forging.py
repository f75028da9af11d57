"""A forger's tools: files taken apart, changed, and sealed again as if they were true."""

from __future__ import annotations

import hashlib
import json
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import zstandard

from safle import decode
from safle.errors import WireError
from safle.wire import container
from safle.wire.planes import count_planes, from_planes, to_planes

CHANGES = [1, -1, 2, -2, 3, 40, -255, 2**20, -(2**31), 2**32, 2**40, 2**52 + 1, 2**62, -(2**63)]
NUMBERS = [None, True, -1, 0, 1, 2**31, 2**70, 1.5, 1e300, 1e308]
TEXTS = ["", "x", "0" * 64, "é\n", "zz" * 64]
NESTED = [[], {}, [[]], {"a": {}}, ["client-00"], [[2**40, 3]], [None], list(range(50))]
JUNK = [*NUMBERS, *TEXTS, *NESTED]


@dataclass
class Forgery:
    """The parts of a wire file, to be changed and put together again.

    ``text`` replaces the header's bytes; ``frames`` replaces compressed sections; ``raw_sizes``
    replaces what the header says of a section's size.
    """

    file_type: int
    header: dict[str, Any]
    sections: dict[str, bytes]
    text: bytes | None = None
    frames: dict[str, bytes] = field(default_factory=dict)
    raw_sizes: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(data: bytes) -> Forgery:
        opened = container.from_bytes(data, file_type=int.from_bytes(data[10:12], "little"))
        sections = {name: opened.section(name, raw) for name, (_, raw) in opened.frames.items()}
        return Forgery(opened.file_type, opened.header, sections)

    def copy(self) -> Forgery:
        return deepcopy(self)

    def to_bytes(self) -> bytes:
        table = [[name, self.raw_sizes.get(name, len(s))] for name, s in self.sections.items()]
        text = self.text or json.dumps(
            {**self.header, "sections": table},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode(errors="surrogatepass")
        start = struct.pack("<HHI", container.VERSION, self.file_type, len(text))
        digest = hashlib.sha256(b"".join([start, text, *self.sections.values()])).digest()
        compressor = zstandard.ZstdCompressor(compression_params=container.COMPRESSION)
        frames = [self.frames.get(n) or compressor.compress(s) for n, s in self.sections.items()]
        sizes = struct.pack(f"<{len(frames)}Q", *map(len, frames))
        return sealed(b"".join([container.MAGIC, start, digest, text, sizes, *frames]))

    def planes(self, name: str) -> int:
        """How many planes an array has."""
        return self.header["planes"][name]

    def numbers(self, name: str) -> np.ndarray:
        """The integers of a section."""
        raw = self.sections[name]
        planes = self.planes(name)
        return from_planes(raw, planes, (len(raw) // planes,))

    def put(self, name: str, values: Any, planes: int | None = None) -> Forgery:
        """Put other integers into a section, in as few planes as they take or in more."""
        values = np.asarray(values, np.int64)
        planes = planes or count_planes(values)
        self.header["planes"][name] = planes
        self.sections[name] = to_planes(values, planes)
        return self


def sealed(body: bytes) -> bytes:
    """A file with the checksum that its body needs."""
    return body + hashlib.sha256(body).digest()


@contextmanager
def at_most(limit: int) -> Iterator[None]:
    """The block allocates no more at its peak."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak} bytes at the peak"


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that some work allocates at its peak."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refuse(data: bytes, match: str | None = None, read: Any = decode) -> None:
    """A file gives a `WireError`, with little work and memory."""
    started = time.process_time()
    with at_most(20_000_000), pytest.raises(WireError, match=match):
        read(data)
    assert time.process_time() - started < 5


def damage(g: np.random.Generator, data: bytes, other: bytes) -> bytes:
    """Bytes of a file flipped, set, cut off, left out, doubled, moved, or another file's."""
    first, second, last = sorted(g.integers(0, len(data), 3).tolist())
    match g.integers(8):
        case 0:
            result = bytearray(data)
            for place in g.integers(0, len(data), g.integers(1, 6)):
                result[place] ^= 1 << g.integers(0, 8)
            return bytes(result)
        case 1:
            value = bytes([g.choice([0, 1, 127, 128, 255])])
            return data[:first] + value * int(g.integers(1, 9)) + data[first + 1 :]
        case 2:
            return data[:first]
        case 3:
            return data[:first] + data[last:]
        case 4:
            return data[:last] + data[first:last] + data[last:]
        case 5:
            return data[:first] + other[g.integers(0, len(other)) :]
        case 6:
            return data[:first] + data[second:last] + data[first:second] + data[last:]
    # A digit, which most often stands in a header.
    digits = [at for at, byte in enumerate(data) if chr(byte) in "0123456789"] or [first]
    at = int(g.choice(digits))
    return data[:at] + str(g.integers(0, 10)).encode() + data[at + 1 :]


def change(g: np.random.Generator, content: Any) -> Any:
    """JSON with something at a place taken away, doubled, replaced or added."""
    content = deepcopy(content)
    paths = [path for path in _places(content) if path]
    *way, last = paths[g.integers(len(paths))]
    where = content
    for key in way:
        where = where[key]
    kind, junk = g.integers(5), JUNK[g.integers(len(JUNK))]
    if kind == 0:
        del where[last]
    elif kind == 1 and isinstance(where, list):
        where.append(deepcopy(where[last]))
    elif kind == 2 and isinstance(where, dict):
        where["more"] = junk
    elif kind == 3 and isinstance(where[last], int | str):
        value = where[last]
        where[last] = value + int(g.integers(-3, 4)) if isinstance(value, int) else value[::-1]
    else:
        where[last] = junk
    return content


def _places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in JSON content, as a path."""
    yield path
    if isinstance(content, dict | list):
        keys = content if isinstance(content, dict) else range(len(content))
        for key in keys:
            yield from _places(content[key], (*path, key))


def forge(g: np.random.Generator, true: Forgery) -> Forgery:
    """A file with another header, or with other numbers."""
    forged = true.copy()
    if g.random() < 0.2:
        forged.header = change(g, forged.header)
        return forged
    for _ in range(g.integers(1, 3)):
        _change_numbers(g, forged)
    return forged


def _change_numbers(g: np.random.Generator, forged: Forgery) -> None:
    """Other numbers in a section: the receiver rebuilds from them what it is not sent."""
    planes = forged.header["planes"]
    arrays = [*forged.sections] if isinstance(planes, int) else [*planes]
    arrays = [name for name in arrays if forged.sections[name]]
    if not arrays:
        return
    name = arrays[g.integers(len(arrays))]
    values = forged.numbers(name)
    with np.errstate(over="ignore"):
        match g.integers(6):
            case 0 | 1:
                values[g.integers(len(values))] += np.int64(g.choice(CHANGES))
            case 2:
                chosen = g.integers(0, len(values), 2)
                values[chosen] = values[chosen[::-1]]
            case 3:
                values *= g.choice([2, -1, 0])
            case 4:
                values[g.random(len(values)) < 0.3] += 1
            case 5:
                values = g.permutation(values)
    forged.put(name, values)
