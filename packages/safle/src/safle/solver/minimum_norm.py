"""ridge = 0: the exact minimum-norm solution ``W = pinv(C) M`` of the pooled problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from safle.basics.memory import require
from safle.errors import SolveError
from safle.solver.reduction import Reduction
from safle.statistics.value import Sums

ROUNDING_UNITS = 1_000


def minimum_norm(statistics: Sums, reduction: Reduction) -> tuple[NDArray[np.float64], int, float]:
    """Real weights, (dim, class_count), the numerical rank and the relative residual.

    The reduced coordinates are orthonormal and span the range of the gram, so the
    shortest solution there is the shortest one overall.
    """
    size = reduction.reduced_dim
    require(
        4 * 8 * size**2,
        purpose=f"the spectral decomposition of {size} columns",
        advice="use a positive ridge, which needs an eighth of that",
    )
    gram = reduction.tile((0, size), (0, size), np.float64)
    target = reduction.forward(statistics.cross * reduction.real[:, None])
    values, vectors = eigh(gram, lower=True, overwrite_a=True)
    # The change of basis rounds too, by some dozen units: a direction kept by mistake
    # would add noise of the size of the solution itself.
    cutoff = (size + ROUNDING_UNITS) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
    kept = values > cutoff
    kept[: max(0, size - statistics.sample_count)] = False
    if not kept.any():
        raise SolveError("there is nothing to fit: the gram is zero")
    part = vectors[:, kept]
    weights = part @ ((part.T @ target) / values[kept, None])
    missed = target - part @ (values[kept, None] * (part.T @ weights))
    residual = float(np.linalg.norm(missed) / np.linalg.norm(target))
    return reduction.backward(weights), int(kept.sum()), residual
