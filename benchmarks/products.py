"""Products: codes of the default encoder -> their exact integer gram, against plain products.

Timed, with ready codes of 4,096 samples in 8,705 columns (512 fixed-point features, 8,192
units of 4 bits, a constant): safle's exact triangle; ``X.T @ X`` in
float64, which is exact as well; and in float32, which is not where features meet.

The instruction limit: two multiply-adds of a vector start per cycle and core (half as many products
where int16 features take part), so one triangle of the units alone takes
``samples * units^2 / 2 / 64`` cycles of one core with AVX2, half of that with AVX-512.
The clock is what the operating system says.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import Settings
from benchmarks.timing import race
from safle import make_encoder, public_sample
from safle._native import level
from safle.statistics.counting import MAX_BYTE_CODE, add_products
from safle.statistics.triangle import packed_size

SAMPLES = 4_096
REPEATS = 5
BARS = {"portable": 0.5, "avx2": 2.0, "avx512": 3.0}
VECTOR_BYTES = {"portable": 16, "avx2": 32, "avx512": 64}
PER_CYCLE = 2


def run(settings: Settings) -> Outcome:
    """Race the three."""
    dataset = data.load(settings)
    features, _labels = dataset.head(SAMPLES)
    codes = make_encoder(public_sample(features)).encode(features).dense
    wide, narrow = codes.astype(np.float64), codes.astype(np.float32)
    times = race(
        ("safle", lambda: _exact(codes)),
        {"float64": lambda: wide.T @ wide, "float32": lambda: narrow.T @ narrow},
        same=_same,
        repeats=REPEATS,
    )
    speedup = times.ratio("float32", "safle")
    limit = _cycles(codes) / clock() / (os.cpu_count() or 1)
    rows = [["contestant", "seconds", "instruction limit, seconds", "of the limit"]]
    for name, best in times.to_json().items():
        ours = [f"{limit:.3f}", f"{limit / best:.0%}"] if name == "safle" else ["", ""]
        rows.append([name, f"{best:.3f}", *ours])
    return Outcome(
        figures={
            "speedup_over_float32": speedup,
            "speedup_over_float64": times.ratio("float64", "safle"),
            "time_over_float32_product": 1 / speedup,
            "fraction_of_limit": limit / times.best("safle"),
            "seconds": times.to_json(),
            "spread": times.spread(),
            "samples": len(codes),
            "columns": codes.shape[1],
        },
        data=dataset.source,
        compared="every sum of products, exactly; with float32 within its rounding",
        bars=[Bar("products: times faster than float32", speedup, BARS[level()])],
        tables={"Products of codes": rows},
    )


def _cycles(codes: NDArray[np.int16]) -> float:
    """Of one core, for one triangle, if nothing ever waited."""
    samples, dim = codes.shape
    bytes_wide = int(((codes.min(axis=0) >= 0) & (codes.max(axis=0) <= MAX_BYTE_CODE)).sum())
    pairs, byte_pairs = dim * (dim + 1) / 2, bytes_wide * (bytes_wide + 1) / 2
    # Of int16 a vector holds half as many.
    return samples * (2 * pairs - byte_pairs) / (PER_CYCLE * VECTOR_BYTES[level()])


def clock() -> float:
    """Cycles per second, as the operating system says."""
    return 1e6 * float(psutil.cpu_freq().current)


def _exact(codes: NDArray[np.int16]) -> NDArray[np.int64]:
    gram = np.zeros(packed_size(codes.shape[1]), np.int64)
    add_products(gram, codes)
    return gram


def _same(found: NDArray[Any], expected: NDArray[np.int64]) -> None:
    ours, theirs = expected, found[np.triu_indices(len(found))]
    exact = found.dtype == np.float64
    if not (np.array_equal(theirs, ours) if exact else np.allclose(theirs, ours, 1e-4, 1e3)):
        raise Disagreement("products: the sums differ")
