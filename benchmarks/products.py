"""Products: few-bit random features -> their exact integer gram, against plain products.

Timed, with ready codes of n=5000 samples and 4,096 units of 4 bits: safle's exact int64
triangle; ``X.T @ X`` in float64, which is exact as well; and in float32, the limit: its
time is the machine's GEMM rate, with nothing written as integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Disagreement, Outcome
from benchmarks.settings import Settings
from benchmarks.timing import race
from safle import PublicSample, RandomFeatureEncoder
from safle.encoders.default import default_terms
from safle.statistics.kernels.triangle import packed_size
from safle.statistics.products import add_products

SAMPLES, UNITS, QUICK_UNITS = 5_000, 4_096, 64
REPEATS = 5


def run(settings: Settings) -> Outcome:
    """Race the three."""
    dataset = data.load(settings)
    features, labels = dataset.head(SAMPLES)
    encoder = RandomFeatureEncoder.calibrated(
        PublicSample(features),
        count=QUICK_UNITS if settings.quick else UNITS,
        terms=default_terms(features.shape[1]),
    )
    codes = encoder.encode(features).dense
    wide, narrow = codes.astype(np.float64), codes.astype(np.float32)
    times = race(
        ("safle", lambda: _exact(codes, labels)),
        {"float64": lambda: wide.T @ wide, "float32": lambda: narrow.T @ narrow},
        same=_same,
        repeats=REPEATS,
    )
    return Outcome(
        figures={
            "speedup_over_float64": times.ratio("float64", "safle"),
            "time_over_float32_product": times.ratio("safle", "float32"),
            "seconds": times.to_json(),
            "spread": times.spread(),
            "samples": len(codes),
            "columns": codes.shape[1],
        },
        data=dataset.source,
        compared="every sum of products, exactly",
    )


def _exact(codes: NDArray[np.int16], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    gram = np.zeros(packed_size(codes.shape[1]), np.int64)
    cross = np.zeros((codes.shape[1], data.CLASSES), np.int64)
    add_products(gram, cross, codes, labels)
    return gram


def _same(found: NDArray[Any], expected: NDArray[np.int64]) -> None:
    if not np.array_equal(found[np.triu_indices(len(found))], expected):
        raise Disagreement("products: the sums differ")
