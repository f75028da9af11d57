"""Wire: one client's statistics as bytes, n=500 and n=50 samples at E=512, V=16.

The rival, ``zstd``, is what one would otherwise send: the upper triangle in its smallest
integer type, compressed by zstd at level 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import zstandard

from benchmarks import data
from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import Settings
from benchmarks.timing import race
from safle import Statistics, count
from safle.wire.statistics import decode_statistics, encode_statistics

SIZES = {"500": 10.0, "50": 3.0}
"""Samples -> most megabytes."""
MEGABYTE = 1_000_000
REPEATS = 15


@dataclass(frozen=True)
class _Client:
    size: int
    zstd_size: int
    encode: float
    decode: float
    zstd: float


def run(settings: Settings) -> Outcome:
    """Encode, decode and compare one client of each size."""
    dataset = data.load(settings)
    encoder = data.embedding(dataset.train)
    order = np.random.default_rng(0).permutation(len(dataset.train))
    clients = {}
    for name in SIZES:
        held = np.sort(order[: int(name)])
        clients[name] = _client(count(encoder, dataset.train[held], dataset.train_labels[held]))
    return Outcome(
        figures={
            "bytes": {name: client.size for name, client in clients.items()},
            "encode_seconds": {name: client.encode for name, client in clients.items()},
            "decode_seconds": {name: client.decode for name, client in clients.items()},
            "zstd_seconds": {name: client.zstd for name, client in clients.items()},
            "zstd_bytes": {name: client.zstd_size for name, client in clients.items()},
        },
        data=dataset.source,
        compared="decoded statistics == encoded ones; the triangle after zstd as well",
        bars=[
            Bar(f"wire: MB of a client, n={name}", client.size / MEGABYTE, SIZES[name], True)
            for name, client in clients.items()
        ],
    )


def _client(statistics: Statistics) -> _Client:
    sent = encode_statistics(statistics)
    triangle = _smallest(statistics)
    plain = zstandard.compress(triangle, 3)

    def same(found: Any, expected: bytes) -> None:
        agree = found in (expected, plain) or found == statistics
        if not agree or zstandard.decompress(plain) != triangle:
            raise Disagreement("wire: what was read is not what was written")

    times = race(
        ("encode", partial(encode_statistics, statistics)),
        {
            "decode": partial(decode_statistics, sent, made=statistics),
            "zstd": partial(zstandard.compress, triangle, 3),
        },
        same=same,
        repeats=REPEATS,
    )
    return _Client(
        len(sent), len(plain), times.best("encode"), times.best("decode"), times.best("zstd")
    )


def _smallest(statistics: Statistics) -> bytes:
    """The packed gram in the smallest integer type that holds it."""
    return statistics.gram.astype(np.min_scalar_type(int(statistics.gram.max()))).tobytes()
