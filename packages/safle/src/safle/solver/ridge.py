"""Choosing the ridge from the statistics alone: no sample is held out, no byte is sent.

With df = sum s/(s + ridge) and the residual sum of squares
``RSS = n - 2 tr(M'W) + tr(W'CW)`` (one-hot labels have squared norm n):

- generalised cross-validation minimises ``RSS / (n - df)^2``. With few samples its lowest point
  is mostly chance, and most often at too small a ridge: of all ridges whose information criterion,
  ``n (K - 1) log(RSS / (n - df)^2)`` for K classes, is within ten of the lowest, it takes the
  largest, as long as its score is no more than a twentieth higher. A model that much worse has
  next to no support left (Burnham and Anderson, 2002);
- the evidence (marginal likelihood of Bayesian regression, noise profiled out)
  minimises ``log(Q / nK) + sum log(1 + s/ridge) / n``, ``Q = n - tr(M' inverse(C +
  ridge) M)``, for K classes: twice its negative logarithm per label.

Where the sums over the spectrum are estimates, a score is the highest that their errors allow,
so no ridge wins by an error. If the errors around the chosen ridge are larger than the
choice can bear, the spectrum is probed again, with more steps and probes.
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
OCTAVES_BELOW, OCTAVES_ABOVE = 32, 4
"""The grid spans this many octaves around the gram's trace."""
MARGIN = 1e-4
"""Scores that differ by less than this share are equally good, however many samples there are."""
SUPPORTED = 10.0
"""Ridges whose information criteria differ by less are equally supported by the samples."""
MOST_SLACK = 0.05
"""As a share of the lowest score: with a handful of samples any ridge would be supported."""
FLOOR = 1e-6
"""A residual below this share of the labels is rounding."""
LEAST_DEGREES_LEFT = 1e-3
"""As a share of the samples: with fewer degrees of freedom left, a fit cannot be judged."""
OCTAVES_NEAR, MOST_ERROR = 1, 0.1
"""How far around the chosen ridge scores must be known, and to what share of themselves."""
PERFECT = 1e-4
"""A fit that leaves less than this share of the labels is called perfect."""


@dataclass(frozen=True)
class RidgeCurve:
    """A criterion over candidate ridges, kept for plotting; lower is better.

    Attributes
    ----------
    ridges, scores, degrees_of_freedom : float64, (candidates,)
    errors : float64, (candidates,), how much lower a score may really be, as a share of it
    slack : scores up to this much above the lowest are equally good
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
    errors: Vector
    slack: float
    residuals: Vector

    @property
    def _best_index(self) -> int:
        return int(np.flatnonzero(self.scores <= self.scores.min() + self.slack)[-1])

    @property
    def best(self) -> float:
        """The largest ridge whose score is within `slack` of the lowest.

        Where labels are fitted perfectly, the curve is flat and its lowest point is chance.
        """
        return float(self.ridges[self._best_index])

    @property
    def certain(self) -> bool:
        """Whether the scores around `best` are known well enough to choose by."""
        near = np.abs(np.log2(self.ridges / self.best)) <= OCTAVES_NEAR
        return bool(self.errors[near].max() <= MOST_ERROR)

    @property
    def leaves_nothing(self) -> bool:
        """Whether the fit at `best` leaves no residual of the labels."""
        return float(self.residuals[self._best_index]) < PERFECT

    def suspects_copies(self, sample_count: int) -> bool:
        """Whether the sums seem to hold copies of samples, by the fit at `best`.

        With copies, far fewer directions than samples explain all labels. Every criterion takes a
        copy for new evidence.
        """
        used = float(self.degrees_of_freedom[self._best_index]) / max(sample_count, 1)
        return used < 0.9 and self.leaves_nothing


def ridge_curve(
    spectrum: Spectrum,
    *,
    sample_count: int,
    class_count: int,
    criterion: str = "gcv",
    squares: float | None = None,
    slack: float = MARGIN,
) -> RidgeCurve:
    """The criterion on a fixed grid of powers of the square root of two.

    A grid, not a search: its best point does not move with the last bits of a sum.

    Parameters
    ----------
    squares : sum of the labels' squares, for the evidence; None: one for each sample
    slack : of the curve, for the evidence
    """
    ridges = grid_of(spectrum.trace)
    n, classes = float(sample_count), float(class_count)
    degrees = spectrum.degrees_of_freedom(ridges)
    if criterion == "evidence":
        total = n if squares is None else squares
        explained = spectrum.bound_target(lambda s: 1 / (s + ridges))
        volumes = spectrum.bound_trace(lambda s: np.log1p(s / ridges))
        floor = FLOOR * max(total, 1.0)
        most_left, least_left = (np.maximum(total - bound, floor) for bound in explained)
        low = np.log(least_left / (n * classes)) + volumes[0] / n
        high = np.log(most_left / (n * classes)) + volumes[1] / n
        residuals = most_left / max(total, 1.0)
        return RidgeCurve(criterion, ridges, high, degrees, high - low, slack, residuals)
    low, high = _gcv(spectrum, ridges, n)
    supported = SUPPORTED / (n * max(classes - 1, 1))
    slack = min(max(MARGIN, supported), MOST_SLACK) * float(high.min())
    errors = np.zeros(len(ridges))
    known = np.isfinite(high)
    errors[known] = 1 - low[known] / high[known]
    errors[~known & np.isfinite(low)] = 1.0
    residuals = np.full(len(ridges), np.inf)
    residuals[known] = high[known] * (1 - degrees[known] / n) ** 2
    return RidgeCurve("gcv", ridges, high, degrees, errors, slack, residuals)


def _gcv(spectrum: Spectrum, ridges: Vector, n: float) -> tuple[Vector, Vector]:
    """The lowest and the highest score that each ridge can have."""
    used = spectrum.bound_trace(lambda s: s / (s + ridges))
    # n - 2 m'w + w'Cw for w = m / (s + ridge) is n - mass (s + 2 ridge) / (s + ridge)^2.
    fitted = spectrum.bound_target(lambda s: (s + 2 * ridges) / (s + ridges) ** 2)
    scores = []
    for degrees, explained in zip(used, reversed(fitted), strict=True):
        left = n - np.minimum(degrees, spectrum.rank)
        # A fit that uses up all samples has no degrees of freedom left to judge it by.
        usable = left > LEAST_DEGREES_LEFT * n
        score = n * np.maximum(n - explained, FLOOR * n) / np.where(usable, left, 1.0) ** 2
        scores.append(np.where(usable, score, np.inf))
    return scores[0], scores[1]


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
