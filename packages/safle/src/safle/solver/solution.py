"""What solving gives: weights, and how they were obtained."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.solver.quadratic import Quadratic
from safle.solver.ridge import RidgeCurve
from safle.statistics.privacy import Privacy


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Weights, what a model needs beside them, and how they were obtained.

    Attributes
    ----------
    fingerprint, layout : of the encoder that made the statistics
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
    backend : who factored
    quadratic : what the quadratic head adds to the scores, where it has a say
    temperature : that scores are divided by before they become probabilities; None where it is
        not known
    privacy : what was promised, where statistics were noisy

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count, solve
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> solution = solve(count(encoder, [[0.1], [0.2], [0.8], [0.9]], ["low"] * 2 + ["high"] * 2))
    >>> solution.class_names, solution.weights.shape
    (('high', 'low'), (2, 2))
    """

    fingerprint: str
    layout: Layout
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
    backend: str = ""
    quadratic: Quadratic | None = None
    privacy: Privacy | None = None
    temperature: float | None = None

    @property
    def sample_count(self) -> int:
        """How many samples the weights come from."""
        return int(self.class_counts.sum())

    def __repr__(self) -> str:
        return (
            f"<Solution: {self.sample_count:,} samples, {len(self.class_names)} classes, "
            f"{len(self.weights):,} columns, {self.head} head, ridge {self.ridge:.4g}, "
            f"encoder {self.fingerprint[:12]}…>"
        )
