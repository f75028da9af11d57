"""The linear system: statistics, a ridge -> ``(C + ridge I)^-1 M``, rounded once.

A factor in half of the bits is refined to the true solution; where it cannot be had, one in all
bits is tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require
from safle.errors import SolveError
from safle.solver.digits import System, solve_exactly
from safle.solver.minimum_norm import minimum_norm
from safle.solver.panels import Cholesky, PanelledMatrix, Progress
from safle.solver.reduction import Reduction
from safle.solver.solution import Solution
from safle.statistics.value import Sums


def least_squares(
    statistics: Sums,
    reduction: Reduction,
    ridge: float,
    progress: Progress | None,
    tries: int = 1,
) -> Solution:
    """Solve with a ridge; where that fails, with twice the ridge, ``tries`` times in all."""
    nothing = np.zeros(len(statistics.class_names))
    head = {"head": "least-squares", "intercept": nothing}
    if ridge == 0:
        weights, rank, residual = minimum_norm(statistics, reduction)
        solved = {"ridge": 0.0, "residual": residual, "rank": rank, "precision": "spectral"}
        return Solution.of(statistics, weights=weights, **solved, **head)
    system = System(statistics, ridge, np.rint(1 / reduction.real).astype(np.int64))
    precision = "float32"
    try:
        weights, residual = _factored(system, reduction, np.float32, progress)
    except SolveError:
        precision = "float64"
        try:
            weights, residual = _factored(system, reduction, np.float64, progress)
        except SolveError as error:
            if tries > 1:
                # Noise this far out is rare, and a larger ridge covers any.
                return least_squares(statistics, reduction, 2 * ridge, progress, tries - 1)
            raise SolveError(
                f"{error}: the statistics are not those of real samples, or the ridge "
                f"{system.ridge.value:g} is far too small beside them; `safle store verify` names "
                "an inconsistent contribution, which can be removed"
            ) from error
    solved = {"ridge": system.ridge.value, "residual": residual, "precision": precision}
    return Solution.of(statistics, weights=weights, **solved, **head)


def _factored(
    system: System, reduction: Reduction, dtype: Any, progress: Progress | None
) -> tuple[NDArray[np.float64], float]:
    """Real weights, (dim, class_count), and the relative residual they leave."""
    size = reduction.reduced_dim
    require_memory(system.statistics, dtype)
    matrix = PanelledMatrix(size, lambda rows, columns: reduction.tile(rows, columns, dtype))
    ridge = system.ridge.value
    matrix.add_to_diagonal(ridge)
    factor = Cholesky(matrix, progress)

    def approximate(right: NDArray[np.float64]) -> NDArray[np.float64]:
        # In code units: inverse(C + ridge S^2) = S^-1 inverse(S^-1 C S^-1 + ridge) S^-1,
        # and outside the range of Q the inner matrix is just the ridge.
        real = right * reduction.real[:, None]
        inside = reduction.forward(real)
        outside = (real - reduction.backward(inside)) / ridge
        solved = reduction.backward(factor.solve(inside)) + outside
        result: NDArray[np.float64] = solved * reduction.real[:, None]
        return result

    return solve_exactly(system, approximate)


def require_memory(statistics: Sums, dtype: Any) -> None:
    """Refuse to begin what would not fit; `NotEnoughMemory`."""
    size, classes = statistics.dim, len(statistics.class_names)
    require(
        solve_bytes(size, classes, np.dtype(dtype).itemsize),
        purpose=f"factoring {size} columns in {np.dtype(dtype).name} for {classes} classes",
        advice="use a smaller encoder, or solve on a machine with more memory",
    )


def solve_bytes(size: int, classes: int = 1, itemsize: int = 4) -> int:
    """Memory that solving takes: half a square, corners, a panel, a dozen of weights.

    >>> solve_bytes(8_705, classes=10) / 1e6 < 350
    True
    """
    half = itemsize * size * (size + 1) // 2
    return half + 4 * itemsize * size * 1024 + 12 * 8 * size * classes
