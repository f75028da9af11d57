"""A `Solution`: weights, and how they were obtained."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import CodeSpace, Layout
from safle.statistics.value import Sums
from safle.tables.checks import ClassName

if TYPE_CHECKING:
    # Prediction must not import the choice of a ridge.
    from safle.solver.ridge import RidgeCurve

HEADS = ("least-squares", "discriminant", "averaged", "quadratic")
OFFSET_BITS = 12
"""Bits of whitened values behind the binary point."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """What a model needs of the quadratic head, in integers.

    A class adds ``-share |y|^2 / 2`` to its score, with ``y = 2**exponent V' x - offsets /
    2**OFFSET_BITS`` and x the real values of `squared_columns`. If ``factors`` are directions G, it
    adds ``+share |y|^2 / 2``, with G in the place of V.

    Attributes
    ----------
    factors : int16, (class_count, d (d + 1) / 2), rows of upper triangular V; or
        (class_count, d, k), G
    exponent : factors are multiples of ``2**exponent``
    offsets : int32, (class_count, d), or (class_count, k)
    share : factor of the squares: the share of the quadratic head in the averaged one, else 1
    """

    factors: NDArray[np.int16]
    exponent: int
    offsets: NDArray[np.int32]
    share: float = 1.0

    @property
    def by_directions(self) -> bool:
        """Whether ``factors`` are G."""
        return self.factors.ndim == 3


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Weights, what a model needs beside them, and how they were obtained.

    Attributes
    ----------
    space : code space of the encoder that made the statistics
    codes : int64, (seen,), columns of the codes that have weights
    class_names : ascending
    weights : float64, (seen + dense_dim, class_count), in real units
    intercept : float64, (class_count,)
    head : "least-squares", "discriminant", "averaged" or "quadratic"
    ridge : the strength used (its nearest value of 20 significant bits)
    class_counts : int64, (class_count,); empty where weights come from a model file
    residual : relative residual of the linear system
    rank : numerical rank, where ridge is 0
    curve : the ridge criterion, where ridge was "auto"
    precision : "float32", "float64" or "spectral"
    quadratic : what the quadratic head adds to the scores, if the head includes it
    temperature : divides scores before they become probabilities; None where it is not known
    promise : of noisy statistics, as text; empty without noise
    sum_digest : `digest_of_sum` of the statistics that were solved

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range, solve
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> solution = solve(count(encoder, [[0.1], [0.2], [0.8], [0.9]], ["low"] * 2 + ["high"] * 2))
    >>> solution.class_names, solution.weights.shape
    (('high', 'low'), (2, 2))
    """

    space: CodeSpace
    codes: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    weights: NDArray[np.float64]
    intercept: NDArray[np.float64]
    head: str
    ridge: float
    class_counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    residual: float = np.nan
    rank: int | None = None
    curve: RidgeCurve | None = None
    precision: str = ""
    quadratic: Quadratic | None = None
    promise: str = ""
    temperature: float | None = None
    sum_digest: str = ""

    @classmethod
    def of(cls, statistics: Sums, **solved: Any) -> Self:
        """A solution with the columns, classes and promise of the statistics."""
        return cls(
            space=statistics.space,
            codes=statistics.codes,
            class_names=statistics.class_names,
            class_counts=statistics.class_counts,
            promise=statistics.promise,
            sum_digest=digest_of_sum(statistics),
            **solved,
        )

    @property
    def sample_count(self) -> int:
        """How many samples the weights come from."""
        return int(self.class_counts.sum())

    def __repr__(self) -> str:
        return (
            f"<Solution: {self.sample_count:,} samples, {len(self.class_names)} classes, "
            f"{len(self.weights):,} columns, {self.head} head, ridge {self.ridge:.4g}, "
            f"encoder {self.space.fingerprint[:12]}…>"
        )


def squared_columns(layout: Layout) -> NDArray[np.int64]:
    """Dense columns that are counted by class, without constants, ascending, (d,)."""
    counted = layout.class_layout
    return np.setdiff1d(np.arange(counted.dim if counted else 0), layout.constants)


def digest_of_sum(statistics: Sums) -> str:
    """SHA-256 of a sum's encoder, classes, class counts, column sums and squares.

    A model carries it, so that everybody sees whether a store has changed since. Products of two
    columns are left out: sums that differ only in them have the same digest.

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> one, other = count(encoder, [[0.1]], ["low"]), count(encoder, [[0.9]], ["high"])
    >>> digest_of_sum(one + other) == digest_of_sum(other + one) != digest_of_sum(one)
    True
    """
    names = json.dumps([statistics.fingerprint, statistics.class_names], ensure_ascii=False)
    digest = hashlib.sha256(names.encode())
    margins = statistics.codes, statistics.class_counts, statistics.cross
    for array in (*margins, statistics.diagonal):
        # Equal sums have equal digests, whatever the type of their arrays.
        dtype = np.int64 if array.dtype.kind in "iu" else np.float64
        digest.update(array.astype(dtype).tobytes())
    return digest.hexdigest()
