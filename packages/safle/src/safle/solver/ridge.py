"""Choosing the ridge from the statistics alone: no sample is held out, no byte is sent.

With df = sum s/(s + ridge) and the residual sum of squares
``RSS = n - 2 tr(M'W) + tr(W'CW)`` (one-hot labels have squared norm n):

- generalised cross-validation minimises ``RSS / (n - df)^2``. With few samples its lowest point
  is mostly chance, and most often at too small a ridge: of all ridges whose information criterion,
  ``n (K - 1) log(RSS / (n - df)^2)`` for K classes, is within ten of the lowest, it takes the
  largest, as long as its score is at most a twentieth higher. A model that much worse has
  next to no support left (Burnham and Anderson, 2002);
- the evidence (marginal likelihood of Bayesian regression, noise profiled out)
  minimises ``log(Q / nK) + sum log(1 + s/ridge) / n``, ``Q = n - tr(M' inverse(C +
  ridge) M)``, for K classes: twice its negative logarithm per label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.errors import SolveError
from safle.solver.refinement import round_ridge
from safle.solver.spectrum import Spectrum

CRITERIA = ("auto", "gcv", "evidence")
Vector = NDArray[np.float64]
GRID_STEPS_PER_OCTAVE = 2
OCTAVES_BELOW = 32
OCTAVES_ABOVE = 4
"""The grid spans this many octaves around the gram's trace."""
MARGIN = 1e-4
"""Scores that differ by less than this share are equally good, however many samples there are."""
SUPPORTED = 10.0
"""Ridges whose information criteria differ by less are equally supported by the samples."""
MAX_MARGIN = 0.05
"""As a share of the lowest score: with a handful of samples any ridge would be supported."""
FLOOR = 1e-6
"""A residual below this share of the labels is rounding."""
MIN_DEGREES_LEFT = 1e-3
"""As a share of the samples: with fewer degrees of freedom left, a fit cannot be judged."""
PERFECT = 1e-4
"""A fit that leaves less than this share of the labels is called perfect."""


@dataclass(frozen=True)
class RidgeCurve:
    """A criterion over candidate ridges, kept for plotting; lower is better.

    Attributes
    ----------
    ridges, scores, degrees_of_freedom : float64, (candidates,)
    margin : scores up to this much above the lowest are equally good
    residuals : float64, (candidates,), as a share of the labels' squares

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range, solve
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> total = count(encoder, [[0.0], [0.1], [0.9], [1.0]], ["low", "low", "high", "high"])
    >>> curve = solve(total).curve
    >>> curve.criterion, curve.ridges.shape == curve.scores.shape
    ('gcv', True)
    """

    criterion: str
    ridges: Vector
    scores: Vector
    degrees_of_freedom: Vector
    margin: float
    residuals: Vector

    @property
    def _best_index(self) -> int:
        return int(np.flatnonzero(self.scores <= self.scores.min() + self.margin)[-1])

    @property
    def best(self) -> float:
        """The largest ridge whose score is within `margin` of the lowest.

        Where labels are fitted perfectly, the curve is flat and its lowest point is chance.
        """
        return float(self.ridges[self._best_index])

    @property
    def is_perfect(self) -> bool:
        """Whether the fit at `best` leaves no residual of the labels."""
        return float(self.residuals[self._best_index]) < PERFECT

    def suspects_copies(self, sample_count: int) -> bool:
        """Whether the sums seem to hold copies of samples, by the fit at `best`.

        With copies, far fewer directions than samples explain all labels. Every criterion takes a
        copy for new evidence.
        """
        used = float(self.degrees_of_freedom[self._best_index]) / max(sample_count, 1)
        return used < 0.9 and self.is_perfect


def ridge_curve(
    spectrum: Spectrum,
    *,
    sample_count: int,
    class_count: int,
    criterion: str = "gcv",
    squares: float | None = None,
    margin: float = MARGIN,
) -> RidgeCurve:
    """The criterion on a fixed grid of powers of the square root of two.

    A grid, not a search: its best point does not move with the last bits of a sum.

    Parameters
    ----------
    squares : sum of the labels' squares, for the evidence; None: one for each sample
    margin : of the curve, for the evidence
    """
    ridges = grid_of(spectrum.trace)
    n = float(sample_count)
    degrees = spectrum.degrees_of_freedom(ridges)
    if criterion == "evidence":
        total = n if squares is None else squares
        floor = FLOOR * max(total, 1.0)
        left = np.maximum(total - spectrum.sum_target(lambda s: 1 / (s + ridges)), floor)
        volumes = spectrum.sum_trace(lambda s: np.log1p(s / ridges))
        scores = np.log(left / (n * class_count)) + volumes / n
        return RidgeCurve(criterion, ridges, scores, degrees, margin, left / max(total, 1.0))
    # n - 2 m'w + w'Cw for w = m / (s + ridge) is n - mass (s + 2 ridge) / (s + ridge)^2.
    fitted = spectrum.sum_target(lambda s: (s + 2 * ridges) / (s + ridges) ** 2)
    residuals = np.maximum(1 - fitted / n, FLOOR)
    # A fit that uses up all samples has no degrees of freedom left to judge it by.
    # With fewer samples than columns, no ridge must win by what probes have missed.
    degrees_left = np.maximum(1 - spectrum.most_degrees_of_freedom(ridges) / n, 0.0)
    usable = degrees_left > MIN_DEGREES_LEFT
    scores = np.where(usable, residuals / np.where(usable, degrees_left, 1.0) ** 2, np.inf)
    supported = SUPPORTED / (n * max(class_count - 1, 1))
    share = min(max(MARGIN, supported), MAX_MARGIN)
    margin = share * float(scores.min())
    return RidgeCurve("gcv", ridges, scores, degrees, margin, residuals)


def grid_of(trace: float) -> Vector:
    """Candidate ridges for a gram of this trace, ascending."""
    if trace <= 0:
        raise SolveError(
            "the gram is zero: expected a feature that is not zero; check the features"
        )
    top = int(np.frexp(trace)[1]) + OCTAVES_ABOVE
    exponents = np.arange(
        (top - OCTAVES_BELOW - OCTAVES_ABOVE) * GRID_STEPS_PER_OCTAVE,
        top * GRID_STEPS_PER_OCTAVE + 1,
    )
    rounded = [round_ridge(2.0 ** (e / GRID_STEPS_PER_OCTAVE)) for e in exponents]
    return np.array([numerator / 2.0**shift for numerator, shift in rounded])
