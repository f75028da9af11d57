"""Choosing the ridge from the statistics alone: no sample is held out, no byte is sent.

With df = sum s/(s + ridge) and the residual sum of squares
``RSS = n - 2 tr(M'W) + tr(W'CW)`` (one-hot labels have squared norm n):

- generalised cross-validation minimises ``RSS / (n - df)^2``. With few samples its lowest point
  is mostly chance, and most often at too small a ridge: of all ridges whose information criterion,
  ``n (K - 1) log(RSS / (n - df)^2)`` for K classes, is within ten of the lowest, it takes the
  largest. A model that much worse has next to no support left (Burnham and Anderson, 2002);
- the evidence (marginal likelihood of Bayesian regression, noise profiled out)
  minimises ``log(Q / nK) + sum log(1 + s/ridge) / n``, ``Q = n - tr(M' inverse(C +
  ridge) M)``, for K classes: twice its negative logarithm per label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.errors import InvalidInput, SolveError
from safle.solver.digits import Ridge
from safle.solver.spectrum import Spectrum

CRITERIA = ("gcv", "evidence")
Vector = NDArray[np.float64]
Function = Callable[[Vector, float], Vector]
GRID_STEPS_PER_OCTAVE = 2
OCTAVES_BELOW, OCTAVES_ABOVE = 32, 4
"""The grid spans this many octaves around the gram's trace."""
MARGIN = 1e-4
"""Scores that differ by less than this share are equally good, however many samples there are."""
SUPPORTED = 10.0
"""Differences of the information criterion up to this one are none that samples could tell."""
FLOOR = 1e-6
"""A residual below this share of the labels is none: what is left there is rounding."""

NOTHING_LEFT = 1e-4
"""The same share, where a sum is judged and not computed with."""


@dataclass(frozen=True)
class RidgeCurve:
    """A criterion over candidate ridges, kept for plotting; lower is better.

    Attributes
    ----------
    ridges, scores, degrees_of_freedom : float64, (candidates,)
    slack : by how much more than the lowest a score is as good

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count, solve
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> total = count(encoder, [[0.0], [0.1], [0.9], [1.0]], ["low", "low", "high", "high"])
    >>> curve = solve(total).curve
    >>> curve.criterion, curve.ridges.shape == curve.scores.shape
    ('gcv', True)
    """

    criterion: str
    ridges: Vector
    scores: Vector
    degrees_of_freedom: Vector
    slack: float = 0.0

    @property
    def best(self) -> float:
        """The largest ridge whose score is as good as the lowest, but for `slack`.

        Where labels are fitted perfectly the curve is flat, and its lowest point noise.
        """
        lowest = float(self.scores.min())
        return float(self.ridges[np.flatnonzero(self.scores <= lowest + self.slack)[-1]])

    def suspects_copies(self, sample_count: int) -> bool:
        """Whether samples seem to stand in the sums several times, by `best` of "gcv".

        Nothing is left of the labels, though far fewer directions were fitted than there are
        samples: that is what copies look like, and cross-validation takes each for new evidence.
        """
        at = int(np.flatnonzero(self.ridges == self.best)[0])
        used = float(self.degrees_of_freedom[at]) / max(sample_count, 1)
        left = float(self.scores[at]) * (1 - used) ** 2
        return self.criterion == "gcv" and used < 0.9 and left < NOTHING_LEFT


def ridge_curve(
    spectrum: Spectrum, *, sample_count: int, class_count: int, criterion: str = "gcv"
) -> RidgeCurve:
    """The criterion on a fixed grid of powers of the square root of two.

    A grid, not a search: its best point does not move with the last bits of a sum.
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    if spectrum.trace <= 0:
        raise SolveError("there is nothing to fit: the gram is zero")
    top = int(np.frexp(spectrum.trace)[1]) + OCTAVES_ABOVE
    exponents = np.arange(
        (top - OCTAVES_BELOW - OCTAVES_ABOVE) * GRID_STEPS_PER_OCTAVE,
        top * GRID_STEPS_PER_OCTAVE + 1,
    )
    grid = np.array([Ridge.near(2.0 ** (e / GRID_STEPS_PER_OCTAVE)).value for e in exponents])
    freedom = _sums(spectrum.nodes, spectrum.trace_masses, grid, lambda s, r: s / (s + r))
    n, classes = float(sample_count), float(class_count)
    if criterion == "gcv":
        scores = _gcv(spectrum, grid, n, freedom)
        slack = max(MARGIN, SUPPORTED / (n * max(classes - 1, 1))) * float(scores.min())
    else:
        scores = _evidence(spectrum, grid, n, classes)
        slack = MARGIN
    return RidgeCurve(criterion, grid, scores, freedom, slack)


def degrees_of_freedom(spectrum: Spectrum, ridge: float) -> float:
    """Df at one ridge."""
    return float((spectrum.trace_masses * spectrum.nodes / (spectrum.nodes + ridge)).sum())


def _sums(nodes: Vector, masses: Vector, grid: Vector, function: Function) -> Vector:
    return np.array([(masses * function(nodes, ridge)).sum() for ridge in grid])


def _gcv(spectrum: Spectrum, grid: Vector, n: float, freedom: Vector) -> Vector:
    # n - 2 m'w + w'Cw for w = m / (s + ridge) is n - mass (s + 2 ridge) / (s + ridge)^2.
    fitted = _sums(
        spectrum.nodes,
        spectrum.target_masses,
        grid,
        lambda s, r: (s + 2 * r) / (s + r) ** 2,
    )
    residual = np.maximum(n - fitted, FLOOR * n)
    left = n - freedom
    # A fit that uses up all samples has no degrees of freedom left to judge it by.
    usable = left > 1e-3 * n
    scores = np.full(len(grid), np.inf)
    scores[usable] = n * residual[usable] / left[usable] ** 2
    return scores


def _evidence(spectrum: Spectrum, grid: Vector, n: float, classes: float) -> Vector:
    explained = _sums(spectrum.nodes, spectrum.target_masses, grid, lambda s, r: 1 / (s + r))
    volume = _sums(spectrum.nodes, spectrum.trace_masses, grid, lambda s, r: np.log1p(s / r))
    return np.log(np.maximum(n - explained, FLOOR * n) / (n * classes)) + volume / n
