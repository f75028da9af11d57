"""A `Solution`: a fitted head, what it was made of, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import CodeSpace
from safle.solver.heads import FittedHead, Matrix, Vector
from safle.statistics.statistics import Sums, digest_of_sum
from safle.tables.checks import ClassName

if TYPE_CHECKING:
    # Prediction must not import the choice of a ridge.
    from safle.solver.heads.quadratic import Quadratic
    from safle.solver.least_squares import LeastSquares
    from safle.solver.ridge import RidgeCurve


@dataclass(frozen=True, eq=False)
class Origin:
    """What a model keeps of the sums that it was solved from.

    Attributes
    ----------
    space : code space of the encoder that made the sums
    codes : int64, (seen,), columns of the codes that have weights
    class_names : ascending
    sum_digest : `safle.statistics.statistics.digest_of_sum`; empty where it is not known
    promise : of noisy sums, as text; empty without noise
    """

    space: CodeSpace
    codes: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    sum_digest: str = ""
    promise: str = ""

    @staticmethod
    def of(sums: Sums) -> Origin:
        return Origin(sums.space, sums.codes, sums.class_names, digest_of_sum(sums), sums.promise)


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """What `solve` gives: a fitted head, what it was made of, and how.

    Attributes
    ----------
    origin : what is known of the sums
    fitted : the head, with its weights
    class_counts : int64, (class_count,), samples of each class
    residual : relative residual of the linear system
    precision : "float32", "float64" or "spectral"
    rank : numerical rank, where ridge is 0
    curve : the ridge criterion, where ridge was "auto"

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range, solve
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> solution = solve(count(encoder, [[0.1], [0.2], [0.8], [0.9]], ["low"] * 2 + ["high"] * 2))
    >>> solution.class_names, solution.weights.shape
    (('high', 'low'), (2, 2))
    """

    origin: Origin
    fitted: FittedHead
    class_counts: NDArray[np.int64]
    residual: float
    precision: str
    rank: int | None = None
    curve: RidgeCurve | None = None

    @staticmethod
    def of(sums: Sums, base: LeastSquares, fitted: FittedHead) -> Solution:
        """The head that was made of ``base``, a solution of the sums or of a part of them."""
        return Solution(
            Origin.of(sums),
            fitted,
            sums.class_counts,
            base.residual,
            base.precision,
            base.rank,
            base.choice.curve,
        )

    @property
    def sample_count(self) -> int:
        """How many samples the weights come from."""
        return int(self.class_counts.sum())

    @property
    def codes(self) -> NDArray[np.int64]:
        """Columns of the codes that have weights, int64, (seen,)."""
        return self.origin.codes

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Ascending."""
        return self.origin.class_names

    @property
    def promise(self) -> str:
        """Of noisy sums, as text; empty without noise."""
        return self.origin.promise

    @property
    def head(self) -> str:
        """The head's name in `HEADS`."""
        return self.fitted.name

    @property
    def ridge(self) -> float:
        """The strength used (its nearest value of 20 significant bits)."""
        return self.fitted.ridge

    @property
    def weights(self) -> Matrix:
        """Float64, (seen + dense_dim, class_count), in real units."""
        return self.fitted.weights

    @property
    def intercept(self) -> Vector:
        """Float64, (class_count,)."""
        return self.fitted.intercept

    @property
    def temperature(self) -> float | None:
        """Divides scores before they become probabilities; None where it is not known."""
        return self.fitted.temperature

    @property
    def quadratic(self) -> Quadratic | None:
        """What the quadratic head adds to the scores, if the head includes it."""
        return self.fitted.quadratic

    def __repr__(self) -> str:
        return (
            f"<Solution: {self.sample_count:,} samples, {len(self.class_names)} classes, "
            f"{len(self.weights):,} columns, {self.head} head, ridge {self.ridge:.4g}, "
            f"encoder {self.origin.space.fingerprint[:12]}…>"
        )
