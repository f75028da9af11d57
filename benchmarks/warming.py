"""Before the clock or the memory gauge runs: kernels compiled, libraries loaded."""

from __future__ import annotations

from benchmarks import data
from safle import count, solve
from safle.solver.spectrum import DECOMPOSE_UP_TO

SAMPLES, FEATURES, BUCKETS = 400, 64, 8


def load_solver() -> None:
    """Solve something small the way large systems are: probed, and factored."""
    features, labels = data.generated(SAMPLES, 1, FEATURES).head(SAMPLES)
    small = count(data.embedding(features, buckets=BUCKETS), features, labels)
    if small.dim - small.layout.experts <= DECOMPOSE_UP_TO:
        raise ValueError(f"{small.dim} columns are decomposed; the warm-up needs more of them")
    solve(small)
    solve(small, ridge=1000.0)
