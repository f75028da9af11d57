"""A forger's tools: files with a correct checksum and digest, and any content."""

from __future__ import annotations

import hashlib
import json
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import zstandard

from safle.errors import WireError
from safle.wire import decode_statistics, encode_statistics
from safle.wire.container import COMPRESSION, VERSION
from support.data_sets import fixed_data

PREFIX = struct.Struct("<8sHHI32s")


@dataclass
class Forgery:
    """The parts of a wire file, to be changed and put together again.

    ``text`` replaces the header's bytes; ``frames`` replaces compressed sections.
    """

    kind: int
    header: dict[str, Any]
    sections: dict[str, bytes]
    text: bytes | None = None
    frames: dict[str, bytes] = field(default_factory=dict)
    raw_sizes: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        table = [[name, self.raw_sizes.get(name, len(s))] for name, s in self.sections.items()]
        text = self.text or json.dumps(
            {**self.header, "sections": table},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode(errors="surrogatepass")
        digest = hashlib.sha256(struct.pack("<HHI", VERSION, self.kind, len(text)) + text)
        for content in self.sections.values():
            digest.update(content)
        compressor = zstandard.ZstdCompressor(compression_params=COMPRESSION)
        frames = [self.frames.get(n) or compressor.compress(s) for n, s in self.sections.items()]
        sizes = struct.pack(f"<{len(frames)}Q", *map(len, frames))
        prefix = PREFIX.pack(b"\x89SAFLE\r\n", VERSION, self.kind, len(text), digest.digest())
        return sealed(b"".join([prefix, text, sizes, *frames]))


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def taken_apart(data: bytes) -> Forgery:
    _, _, kind, size, _ = PREFIX.unpack_from(data)
    header = json.loads(data[48 : 48 + size])
    table = header.pop("sections")
    at = 48 + size + 8 * len(table)
    sections = {}
    for (name, _), length in zip(
        table, struct.unpack_from(f"<{len(table)}Q", data, 48 + size), strict=True
    ):
        sections[name] = zstandard.decompress(data[at : at + length])
        at += length
    return Forgery(kind, header, sections)


def planes_of(values: Any, planes: int | None = None) -> tuple[int, bytes]:
    """Byte planes of folded integers, and how many half ones there are."""
    folded = [2 * v if v >= 0 else -2 * v - 1 for v in np.asarray(values, object).ravel()]
    halves = planes or max([1, *((u.bit_length() + 3) // 4 for u in folded)])
    shifted = [u << 4 * (halves % 2) for u in folded]
    return halves, bytes(u >> 8 * p & 255 for p in range((halves + 1) // 2) for u in shifted)


class NoThreads:
    """Files this small are compressed sooner than a thread starts."""

    def __init__(self, workers):
        del workers

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    map = staticmethod(map)

    @staticmethod
    def submit(function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safle.wire.container.ThreadPoolExecutor", NoThreads)


@pytest.fixture(scope="session")
def forge() -> Callable[[bytes], Forgery]:
    """Take a file apart."""
    return taken_apart


@pytest.fixture(scope="session")
def seal() -> Callable[[bytes], bytes]:
    """Append the checksum that a body needs."""
    return sealed


@pytest.fixture(scope="session")
def planes() -> Callable[..., tuple[int, bytes]]:
    return planes_of


@pytest.fixture(scope="session")
def at_most() -> Callable[[int], Any]:
    """``with at_most(bytes)``: the block allocates no more at its peak."""

    @contextmanager
    def measure(limit: int) -> Iterator[None]:
        tracemalloc.start()
        try:
            yield
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < limit, f"{peak} bytes at the peak"

    return measure


@pytest.fixture(scope="session")
def refuses(at_most: Any) -> Callable[..., None]:
    """``refuses(data)``: a statistics file gives a `WireError`, with little work and memory."""
    # Compiling is neither: every kernel that reading takes is compiled before.
    decode_statistics(encode_statistics(fixed_data("table").count())).verify()

    def check(data: bytes, match: str | None = None) -> None:
        started = time.process_time()
        with at_most(20_000_000), pytest.raises(WireError, match=match):
            decode_statistics(data)
        assert time.process_time() - started < 5

    return check
