"""Wire: one client's statistics as bytes, n=500 and n=50 samples.

With E=512, V=16 (the paper's encoder), and, under ``default_...``, with the default encoder.
The rival, ``zstd``, is what one would otherwise send: the upper triangle in its smallest
integer type, compressed by zstd at level 3. Decoding multiplies the whole gram out, which a
server that only adds up does not.
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
from safle import Encoder, Statistics, count, decode, encode

PAPER, DEFAULT = "", "default_"
"""Prefixes of the figures' keys."""
SIZES = {PAPER: {"500": 1.6, "50": 0.12}, DEFAULT: {"500": 8.0, "50": 0.75}}
"""Samples -> most megabytes."""
REPEATS = {PAPER: 15, DEFAULT: 4}
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class _Client:
    bytes: int
    zstd_bytes: int
    encode_seconds: float
    decode_seconds: float
    zstd_seconds: float


def run(settings: Settings) -> Outcome:
    """Encode, decode and compare one client of each size, with either encoder."""
    dataset = data.load(settings)
    encoders: dict[str, Encoder] = {
        PAPER: data.embedding(dataset.train),
        DEFAULT: data.default(dataset.train),
    }
    order = np.random.default_rng(0).permutation(len(dataset.train))
    figures: dict[str, dict[str, float]] = {}
    bars = []
    for prefix, encoder in encoders.items():
        for name, most in SIZES[prefix].items():
            held = np.sort(order[: int(name)])
            statistics = count(encoder, dataset.train[held], dataset.train_labels[held])
            client = _client(statistics, repeats=REPEATS[prefix])
            for key, value in vars(client).items():
                figures.setdefault(prefix + key, {})[name] = value
            of = "default encoder, " if prefix else ""
            size = client.bytes / MEGABYTE
            bars.append(Bar(f"wire: MB of a client, {of}n={name}", size, most, at_most=True))
    return Outcome(
        figures=figures,
        data=dataset.source,
        compared="decoded statistics == encoded ones; the triangle after zstd as well",
        bars=bars,
    )


def _client(statistics: Statistics, *, repeats: int) -> _Client:
    sent = encode(statistics)
    triangle = _smallest(statistics)
    plain = zstandard.compress(triangle, 3)

    def same(found: Any, expected: bytes) -> None:
        agree = found in (expected, plain) if isinstance(found, bytes) else found == statistics
        if not agree or zstandard.decompress(plain) != triangle:
            raise Disagreement("wire: what was read is not what was written")

    times = race(
        ("encode", partial(encode, statistics)),
        {
            "decode": partial(decode, sent, space=statistics.space),
            "zstd": partial(zstandard.compress, triangle, 3),
        },
        same=same,
        repeats=repeats,
    )
    best = times.to_json()
    return _Client(len(sent), len(plain), best["encode"], best["decode"], best["zstd"])


def _smallest(statistics: Statistics) -> bytes:
    """The packed gram in the smallest integer type that holds it."""
    low, high = int(statistics.gram.packed.min()), int(statistics.gram.packed.max())
    reach = high if low >= 0 else min(low, -high - 1)
    return statistics.gram.packed.astype(np.min_scalar_type(reach)).tobytes()
