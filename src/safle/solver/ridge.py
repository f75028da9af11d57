"""Choosing the ridge from the statistics alone: no sample is held out, no byte is sent.

With df = sum s/(s + ridge) and the residual sum of squares
``RSS = n - 2 tr(M'W) + tr(W'CW)`` (one-hot labels have squared norm n):

- generalised cross-validation minimises ``RSS / (n - df)^2``;
- the evidence (marginal likelihood of Bayesian regression, noise profiled out)
  minimises ``n K log(Q / nK) + K sum log(1 + s/ridge)``, ``Q = n - tr(M' inverse(C +
  ridge) M)``, for K classes.
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
OCTAVES_BELOW, OCTAVES_ABOVE = 34, 4
"""The grid spans this many octaves around the largest eigenvalue."""


@dataclass(frozen=True)
class RidgeCurve:
    """A criterion over candidate ridges, kept for plotting; lower is better.

    Attributes
    ----------
    ridges, scores, degrees_of_freedom : float64, (candidates,)
    """

    criterion: str
    ridges: Vector
    scores: Vector
    degrees_of_freedom: Vector

    @property
    def best(self) -> float:
        return float(self.ridges[int(np.argmin(self.scores))])


def ridge_curve(
    spectrum: Spectrum, *, sample_count: int, class_count: int, criterion: str = "gcv"
) -> RidgeCurve:
    """The criterion on a fixed grid of powers of the square root of two.

    A grid, not a search: its best point does not move with the last bits of a sum.
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    if spectrum.largest <= 0:
        raise SolveError("there is nothing to fit: the gram is zero")
    top = int(np.ceil(np.log2(spectrum.largest))) + OCTAVES_ABOVE
    exponents = np.arange(
        (top - OCTAVES_BELOW - OCTAVES_ABOVE) * GRID_STEPS_PER_OCTAVE,
        top * GRID_STEPS_PER_OCTAVE + 1,
    )
    grid = np.array([Ridge.near(2.0 ** (e / GRID_STEPS_PER_OCTAVE)).value for e in exponents])
    freedom = _sums(spectrum.trace_nodes, spectrum.trace_masses, grid, lambda s, r: s / (s + r))
    score = _gcv if criterion == "gcv" else _evidence
    scores = score(spectrum, grid, float(sample_count), float(class_count), freedom)
    return RidgeCurve(criterion, grid, scores, freedom)


def _sums(nodes: Vector, masses: Vector, grid: Vector, function: Function) -> Vector:
    return np.array([(masses * function(nodes, ridge)).sum() for ridge in grid])


def _gcv(
    spectrum: Spectrum,
    grid: Vector,
    n: float,
    classes: float,
    freedom: Vector,
) -> Vector:
    del classes
    # n - 2 m'w + w'Cw for w = m / (s + ridge) is n - mass (s + 2 ridge) / (s + ridge)^2.
    fitted = _sums(
        spectrum.target_nodes,
        spectrum.target_masses,
        grid,
        lambda s, r: (s + 2 * r) / (s + r) ** 2,
    )
    residual = np.maximum(n - fitted, 0.0)
    left = n - freedom
    # A fit that uses up all samples has no degrees of freedom left to judge it by.
    usable = left > 1e-3 * n
    scores = np.full(len(grid), np.inf)
    scores[usable] = n * residual[usable] / left[usable] ** 2
    return scores


def _evidence(
    spectrum: Spectrum,
    grid: Vector,
    n: float,
    classes: float,
    freedom: Vector,
) -> Vector:
    del freedom
    explained = _sums(spectrum.target_nodes, spectrum.target_masses, grid, lambda s, r: 1 / (s + r))
    volume = _sums(spectrum.trace_nodes, spectrum.trace_masses, grid, lambda s, r: np.log1p(s / r))
    noise = np.maximum(n - explained, 1e-12 * n) / (n * classes)
    return n * classes * np.log(noise) + classes * volume
