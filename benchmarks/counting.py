"""Counting: ready codes -> gram and cross, against SciPy's sparse and a dense product.

Timed, with n=5000 samples: safle's `Accumulator` from uint8 symbols to finished statistics;
for the rivals the two products ``Phi.T @ Phi`` and ``Phi.T @ Y`` alone. Turning codes
into a CSR matrix (int32 or float32, whichever is faster at the first shape) or into a
dense float32 one is not timed, and neither is encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import data
from benchmarks.ready import ReadyCodes
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from benchmarks.timing import Contestant, Times, race
from safle import Accumulator, Statistics
from safle.statistics.triangle import start

SAMPLES = 5_000
SHAPES = {"512x16": (4, 4), "1024x16": (8, 4), "341x64": (4, 6), "2048x4": (8, 2)}
"""E x V of 512 features -> digits a feature, digits an expert."""
BARS = {"512x16": 25.0, "1024x16": 25.0, "341x64": 20.0, "2048x4": 25.0}
REPEATS, RIVAL_REPEATS = 6, 2
COMPARED_ROWS = 1024


Product = tuple[Any, Any]
"""Gram and cross, sparse or dense, over all codes."""


def run(settings: Settings) -> Outcome:
    """Race all four shapes."""
    dataset = data.load(settings)
    races: dict[str, tuple[Times, int]] = {}
    kinds = ["int32", "float32"]
    for name, (buckets, group_size) in SHAPES.items():
        note(f"counting {name} ...")
        races[name] = _race(dataset, buckets, group_size, kinds)
        times = races[name][0]
        note(f"  best of each, seconds: {times.to_json()}")
        # SciPy takes minutes on the larger shapes: only its faster type goes on.
        kinds = sorted(kinds, key=times.best)[:1]
    scipy = {name: times.ratio(kinds[0], "safle") for name, (times, _) in races.items()}
    dense = {name: times.ratio("dense", "safle") for name, (times, _) in races.items()}
    return Outcome(
        figures={
            "speedup_over_scipy": scipy,
            "speedup_over_dense": dense,
            "increments_per_second": {
                name: increments / times.best("safle")
                for name, (times, increments) in races.items()
            },
            "seconds": {name: times.to_json() for name, (times, _) in races.items()},
            "spread": {name: times.spread() for name, (times, _) in races.items()},
            "scipy_type": kinds[0],
            "dense_library": "torch" if _torch() else "numpy",
        },
        data=dataset.source,
        compared="every count of gram and cross, exactly",
        bars=[
            Bar(f"counting {name}: times faster than SciPy", scipy[name], BARS[name])
            for name in SHAPES
        ],
    )


def _race(
    dataset: data.Dataset, buckets: int, group_size: int, kinds: Sequence[str]
) -> tuple[Times, int]:
    """Times, and how many pairs of codes were counted."""
    features, labels = dataset.head(SAMPLES)
    encoder = data.embedding(features, buckets=buckets, group_size=group_size)
    # Whole groups only: 341 experts of 64, without the remainder of two digits.
    whole = buckets * encoder.feature_dim // group_size
    symbols = np.ascontiguousarray(encoder.encode(features).symbols[:, :whole])
    ready = ReadyCodes(symbols, (2**group_size,) * whole)
    places = symbols + ready.layout.bases[:-1]
    onehot = np.eye(data.CLASSES, dtype=np.float32)[labels]
    rivals: dict[str, Contestant] = {
        kind: _sparse_product(places, ready.layout.code_count, onehot, kind) for kind in kinds
    }
    rivals["dense"] = _dense_product(places, ready.layout.code_count, onehot)
    times = race(
        ("safle", partial(_count, ready, labels)),
        rivals,
        same=_same,
        repeats=REPEATS,
        rival_repeats=RIVAL_REPEATS,
    )
    return times, len(labels) * whole * (whole + 1) // 2


def _count(ready: ReadyCodes, labels: NDArray[np.int64]) -> Statistics:
    total = Accumulator(ready)
    total.add_samples(ready.numbers, labels)
    statistics = total.snapshot()
    # A gram of few samples is made when it is first asked for.
    assert statistics.gram.packed.size
    return statistics


def _sparse_product(
    places: NDArray[np.int64], width: int, onehot: NDArray[np.float32], kind: str
) -> Contestant:
    samples, experts = places.shape
    starts = np.arange(0, samples * experts + 1, experts, dtype=np.int32)
    columns = places.astype(np.int32).ravel()
    phi = sparse.csr_array((np.ones(columns.size, kind), columns, starts), (samples, width))
    target = onehot.astype(kind)
    return lambda: (phi.T @ phi, phi.T @ target)


def _dense_product(
    places: NDArray[np.int64], width: int, onehot: NDArray[np.float32]
) -> Contestant:
    phi = np.zeros((len(places), width), np.float32)
    np.put_along_axis(phi, places, 1.0, axis=1)
    torch = _torch()
    if torch is None:
        return lambda: (phi.T @ phi, phi.T @ onehot)
    left, right = torch.from_numpy(phi), torch.from_numpy(onehot)
    return lambda: ((left.T @ left).numpy(), (left.T @ right).numpy())


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _same(found: Product, expected: Statistics) -> None:
    """Compare a full product with packed statistics, some rows at a time."""
    gram, cross = found
    codes, dim = expected.codes, expected.dim
    agree = np.array_equal(cross[codes], expected.cross)
    # Each sample adds E^2 ones: with the seen part equal, nothing is left for the unseen.
    total = expected.layout.experts**2 * expected.sample_count
    agree = agree and gram.sum(dtype=np.float64) == total
    for first in range(0, dim, COMPARED_ROWS):
        rows = gram[codes[first : first + COMPARED_ROWS]]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        for row, values in enumerate(rows, first):
            ours = expected.gram.packed[start(row, dim) + row : start(row, dim) + dim]
            agree = agree and np.array_equal(values[codes[row:]], ours)
    if not agree:
        raise Disagreement("counting: the products differ")
