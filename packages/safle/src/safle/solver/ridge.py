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

Where the sums over the spectrum are estimates, a score is the highest that their errors allow:
a ridge is never chosen for an error. If the errors around the chosen ridge are larger than the
choice can bear, the spectrum is probed again, with more steps and probes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.errors import SolveError
from safle.solver.digits import Ridge
from safle.solver.spectrum import Function, Spectrum
from safle.statistics.free_sums import FreeSums
from safle.statistics.noisy import NoisyStatistics
from safle.statistics.value import Sums

CRITERIA = ("auto", "gcv", "evidence")
Vector = NDArray[np.float64]
GRID_STEPS_PER_OCTAVE = 2
OCTAVES_BELOW, OCTAVES_ABOVE = 32, 4
"""The grid spans this many octaves around the gram's trace."""
MARGIN = 1e-4
"""Scores that differ by less than this share are equally good, however many samples there are."""
SUPPORTED = 10.0
"""Differences of the information criterion up to this one are none that samples could tell."""
MOST_SLACK = 0.05
"""As a share of the lowest score: with a handful of samples any ridge would be supported."""
FLOOR = 1e-6
"""A residual below this share of the labels is none: what is left there is rounding."""
LEAST_LEFT = 1e-3
"""As a share of the samples: fewer degrees of freedom left are too few to judge by."""
DEVIATIONS = 2.0
"""How many deviations the mean of random probes may be off."""
OCTAVES_NEAR, MOST_ERROR = 1, 0.1
"""How far around the chosen ridge scores must be known, and to what share of themselves."""
NOTHING_LEFT = 1e-4
"""The same share, where a sum is judged and not computed with."""
SCATTER = 2.0
"""Times ``D^(-2/3)``: an eigenvalue of noise farther out is one in thousands."""


@dataclass(frozen=True)
class RidgeCurve:
    """A criterion over candidate ridges, kept for plotting; lower is better.

    Attributes
    ----------
    ridges, scores, degrees_of_freedom : float64, (candidates,)
    errors : float64, (candidates,), by how much less a score may be, as a share of it
    slack : by how much more than the lowest a score is as good
    left : float64, (candidates,), the share of the labels' squares that the fit leaves; None if
        that was not worked out

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
    errors: Vector
    slack: float = 0.0
    left: Vector | None = None

    @property
    def best(self) -> float:
        """The largest ridge whose score is as good as the lowest, but for `slack`.

        Where labels are fitted perfectly the curve is flat, and its lowest point noise.
        """
        lowest = float(self.scores.min())
        return float(self.ridges[np.flatnonzero(self.scores <= lowest + self.slack)[-1]])

    @property
    def certain(self) -> bool:
        """Whether the scores around `best` are known well enough to choose by."""
        near = np.abs(np.log2(self.ridges / self.best)) <= OCTAVES_NEAR
        return bool(self.errors[near].max() <= MOST_ERROR)

    def suspects_copies(self, sample_count: int) -> bool:
        """Whether samples seem to stand in the sums several times, by the fit at `best`.

        Nothing is left of the labels, though far fewer directions were fitted than there are
        samples: that is what copies look like, and every criterion takes each for new evidence.
        """
        at = int(np.flatnonzero(self.ridges == self.best)[0])
        used = float(self.degrees_of_freedom[at]) / max(sample_count, 1)
        return used < 0.9 and self.leaves_nothing

    @property
    def leaves_nothing(self) -> bool:
        """Whether the fit at `best` leaves no residual of the labels."""
        at = int(np.flatnonzero(self.ridges == self.best)[0])
        return self.left is not None and float(self.left[at]) < NOTHING_LEFT


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
    squares : of the labels, for the evidence: less than one for each sample where they are centred
    slack : of the evidence
    """
    grid = grid_of(spectrum.trace)
    n, classes = float(sample_count), float(class_count)
    freedom = np.array([degrees_of_freedom(spectrum, ridge) for ridge in grid])
    if criterion == "evidence":
        total = n if squares is None else squares
        left = np.array([_left(spectrum, ridge, total) for ridge in grid])
        volumes = np.array([_trace(spectrum, _growth(ridge)) for ridge in grid])
        low, high = (np.log(left / (n * classes)) + volumes / n).T
        share = left[:, 1] / max(total, 1.0)
        return RidgeCurve(criterion, grid, high, freedom, high - low, slack, share)
    low, high = np.array([_gcv(spectrum, ridge, n) for ridge in grid]).T
    supported = SUPPORTED / (n * max(classes - 1, 1))
    slack = min(max(MARGIN, supported), MOST_SLACK) * float(high.min())
    errors = np.zeros(len(grid))
    known = np.isfinite(high)
    errors[known] = 1 - low[known] / high[known]
    errors[~known & np.isfinite(low)] = 1.0
    share = high * (1 - freedom / n) ** 2
    return RidgeCurve("gcv", grid, high, freedom, errors, slack, share)


def grid_of(trace: float) -> Vector:
    """Candidate ridges for a gram of this trace, ascending."""
    if trace <= 0:
        raise SolveError("there is nothing to fit: the gram is zero")
    top = int(np.frexp(trace)[1]) + OCTAVES_ABOVE
    exponents = np.arange(
        (top - OCTAVES_BELOW - OCTAVES_ABOVE) * GRID_STEPS_PER_OCTAVE,
        top * GRID_STEPS_PER_OCTAVE + 1,
    )
    return np.array([Ridge.near(2.0 ** (e / GRID_STEPS_PER_OCTAVE)).value for e in exponents])


def degrees_of_freedom(spectrum: Spectrum, ridge: float) -> float:
    """Df at one ridge."""
    found = [side.traces(lambda s: s / (s + ridge)).mean() for side in spectrum.sides]
    return float(min(np.mean(found), spectrum.rank))


def _trace(spectrum: Spectrum, function: Function) -> tuple[float, float]:
    """The least and the most that ``sum_i f(s_i)`` can be, but for `DEVIATIONS`."""
    low, high = [], []
    for side in spectrum.sides:
        found = side.traces(function)
        error = 0.0 if len(found) == 1 else found.std(ddof=1) / np.sqrt(len(found))
        low.append(found.mean() - DEVIATIONS * error)
        high.append(found.mean() + DEVIATIONS * error)
    return min(low), max(high)


def _target(spectrum: Spectrum, function: Function) -> tuple[float, float]:
    found = [side.target(function) for side in spectrum.sides]
    return min(found), max(found)


def _gcv(spectrum: Spectrum, ridge: float, n: float) -> tuple[float, float]:
    """The least and the most that the score can be."""
    free = _trace(spectrum, lambda s: s / (s + ridge))
    # n - 2 m'w + w'Cw for w = m / (s + ridge) is n - mass (s + 2 ridge) / (s + ridge)^2.
    fitted = _target(spectrum, lambda s: (s + 2 * ridge) / (s + ridge) ** 2)
    scores = []
    for freedom, explained in zip(free, reversed(fitted), strict=True):
        left = n - min(freedom, spectrum.rank)
        # A fit that uses up all samples has no degrees of freedom left to judge it by.
        usable = left > LEAST_LEFT * n
        scores.append(n * max(n - explained, FLOOR * n) / left**2 if usable else np.inf)
    return scores[0], scores[1]


def _left(spectrum: Spectrum, ridge: float, squares: float) -> tuple[float, float]:
    """The least and the most that Q can be."""
    explained = _target(spectrum, lambda s: 1 / (s + ridge))
    least, most = (max(squares - share, FLOOR * max(squares, 1.0)) for share in reversed(explained))
    return least, most


def _growth(ridge: float) -> Function:
    return lambda s: np.log1p(s / ridge)


def noise_ridge(statistics: Sums) -> float:
    """The least ridge, in real units: the largest eigenvalue of noise; 0 of exact statistics.

    A symmetric matrix of Gaussian noise, of deviation sigma / sqrt(2) beside its diagonal, has
    eigenvalues up to ``sigma sqrt(2 D)`` (Wigner; the last of them scatters by about ``D^(-2/3)``
    of that). With a smaller ridge weights follow the noise; a larger one takes away what was
    learnt.
    """
    if not isinstance(statistics, NoisyStatistics):
        return 0.0
    noise, free = statistics.privacy, len(FreeSums(statistics.layout, 0).rows)
    products = noise.gram * math.sqrt(2 * free) * (1 + SCATTER * free ** (-2 / 3))
    # The products with the constant are sums over classes, each with noise of its own.
    totals = noise.cross * math.sqrt(free * len(statistics.class_names))
    edge = products / 2 + math.hypot(products / 2, totals)
    # A code that follows from the others of its expert adds up their noise.
    return edge * max(statistics.layout.table_sizes, default=1)
