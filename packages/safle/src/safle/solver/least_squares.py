"""The linear system: statistics, a ridge -> ``(C + ridge I)^-1 M``, rounded once.

A rough inverse is refined to the true solution. A gram of few samples has a root, ``C = L L'``, and
Woodbury's inverse, ``(I - L inverse(L'L + ridge I) L') / ridge``. For others, or where that is too
rough, a Cholesky factor of all columns in float32 is tried, and then one in float64.

What is factored is held as panels of rows up to its diagonal: little more than half the memory of a
square, and nearly all work in products of one panel by another, which run at the machine's GEMM
rate. Panels are in column order, so BLAS and LAPACK can change some of their columns in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, eigh, lapack

from safle._native.cores import blas_for
from safle.basics.memory import require_free_memory
from safle.basics.progress import Progress, no_progress
from safle.errors import SolveError
from safle.solver.ordered import multiply_in_order
from safle.solver.reduction import Reduction, square_of
from safle.solver.refinement import Approximate, System, refine
from safle.solver.spectrum import spectrum_of
from safle.statistics.statistics import Sums

if TYPE_CHECKING:
    from safle.solver.choice import RidgeChoice

HEIGHT = 1536
"""Rows of a panel."""
ROUNDING_UNITS = 1_000
NOISY_TRIES = 8
"""Ridges that are tried for noisy sums, each twice the one before."""
MAX_LEVERAGE = 0.9
"""With more leverage, left-out scores are nearly unknown."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """B, the weights of least squares, and what heads ask of it.

    Attributes
    ----------
    choice : the ridge that was asked for, with the reduced sums
    weights : float64, (dim, class_count), B in real units
    ridge : the strength used: its nearest value of 20 bits, or a larger one for noisy sums
    residual : relative residual of the linear system
    precision : of the factorisation, "float32", "float64" or "spectral"
    rank : numerical rank, where ridge is 0
    """

    choice: RidgeChoice
    weights: Matrix
    ridge: float
    residual: float
    precision: str
    rank: int | None = None

    @property
    def sums(self) -> Sums:
        """What was solved."""
        return self.choice.reduction.sums

    @cached_property
    def target_products(self) -> Matrix:
        """M'B, (class_count, class_count)."""
        target = self.choice.reduction.target
        return multiply_in_order(np.ascontiguousarray(target.T), self.weights)

    @cached_property
    def score_products(self) -> Matrix:
        """B'CB, products of the scores of the counted samples, (class_count, class_count)."""
        weights = multiply_in_order(np.ascontiguousarray(self.weights.T), self.weights)
        return self.target_products.T - self.ridge * weights

    @cached_property
    def leverage(self) -> float:
        """Degrees of freedom for each sample, at most `MAX_LEVERAGE`."""
        spectrum = self.choice.spectrum or spectrum_of(self.choice.reduction)
        used = float(spectrum.degrees_of_freedom(np.array([self.ridge]))[0])
        return min(max(used / float(self.sums.sample_count), 0.0), MAX_LEVERAGE)


def solve_exactly(choice: RidgeChoice, progress: Progress = no_progress) -> LeastSquares:
    """Solve with the chosen ridge; noisy sums, where that fails, with twice the ridge, and so on.

    Noise rarely exceeds the ridge chosen for it; a larger ridge covers it.
    """
    if choice.ridge == 0:
        return _minimum_norm(choice)
    for_noise = choice.spectrum is not None and choice.reduction.sums.least_ridge > 0
    return _solve(choice, choice.ridge, NOISY_TRIES if for_noise else 1, progress)


def _solve(choice: RidgeChoice, ridge: float, tries: int, progress: Progress) -> LeastSquares:
    """Solve by the first rough inverse that can be refined; if none can, with twice the ridge."""
    reduction = choice.reduction
    system = System(reduction.sums, ridge, np.rint(1 / reduction.steps).astype(np.int64))
    for precision, invert in _rough_inverses(reduction, system.ridge, progress):
        try:
            weights, residual = refine(system, invert())
        except SolveError as error:
            # The error itself would keep the factor in memory.
            failure = str(error)
        else:
            return LeastSquares(choice, weights, system.ridge, residual, precision)
    if tries > 1:
        return _solve(choice, 2 * ridge, tries - 1, progress)
    raise SolveError(
        f"{failure}: the statistics are not those of real samples, or the ridge {system.ridge:g} "
        "is far too small beside them; `safle store verify` names an inconsistent contribution, "
        "which can be removed"
    )


def _rough_inverses(
    reduction: Reduction, ridge: float, progress: Progress
) -> Iterator[tuple[str, Callable[[], Approximate]]]:
    """Ways to a rough inverse, with their precision; the fastest first."""
    if reduction.is_small and reduction.root is not None:
        yield "float64", partial(_by_root, reduction, ridge)
    for precision in ("float32", "float64"):
        yield precision, partial(_by_columns, reduction, ridge, np.dtype(precision), progress)


def _by_root(reduction: Reduction, ridge: float) -> Approximate:
    assert reduction.root is not None, "the samples are not few"
    root, _ = reduction.root
    inner = np.asfortranarray(square_of(root))
    factor = Cholesky(len(inner), lambda rows, columns: inner[slice(*rows), slice(*columns)], ridge)
    steps = reduction.steps[:, None]

    def approximate(right: Matrix) -> Matrix:
        in_steps = right * steps
        inside = root @ factor.solve(root.T @ in_steps)
        return (in_steps - inside) / ridge * steps

    return approximate


def _by_columns(
    reduction: Reduction, ridge: float, dtype: np.dtype[Any], progress: Progress
) -> Approximate:
    require_memory(reduction.sums, dtype)
    factor = Cholesky(reduction.reduced_dim, partial(reduction.tile, dtype=dtype), ridge, progress)
    steps = reduction.steps[:, None]

    def approximate(right: Matrix) -> Matrix:
        # In code units: inverse(C + ridge S^2) = S^-1 inverse(S^-1 C S^-1 + ridge) S^-1,
        # and outside the range of Q the inner matrix is just the ridge.
        in_steps = right * steps
        inside = reduction.forward(in_steps)
        outside = (in_steps - reduction.backward(inside)) / ridge
        return (reduction.backward(factor.solve(inside)) + outside) * steps

    return approximate


def require_memory(sums: Sums, dtype: Any) -> None:
    """Raise `NotEnoughMemory` if the factor would not fit."""
    size = sums.dim
    classes = len(sums.class_names)
    require_free_memory(
        solve_bytes(size, classes, np.dtype(dtype).itemsize),
        purpose=f"factoring {size} columns in {np.dtype(dtype).name} for {classes} classes",
        advice="use a smaller encoder, or solve on a machine with more memory",
    )


def solve_bytes(size: int, classes: int, itemsize: int) -> int:
    """Bytes that solving takes: half a square, corners and a panel, a dozen copies of weights."""
    half = itemsize * size * (size + 1) // 2
    return half + 4 * itemsize * size * 1024 + 12 * 8 * size * classes


def _minimum_norm(choice: RidgeChoice) -> LeastSquares:
    """``pinv(C) M``.

    The reduced coordinates are orthonormal and span the range of the gram, so the shortest solution
    there is the shortest one overall.
    """
    reduction = choice.reduction
    size = reduction.reduced_dim
    require_free_memory(
        4 * 8 * size**2,
        purpose=f"the spectral decomposition of {size} columns",
        advice="use a positive ridge, which needs an eighth of that",
    )
    target = reduction.forward(reduction.target)
    values, vectors = eigh(reduction.gram(), lower=True, overwrite_a=True)
    # The change of basis rounds too, by some dozen units: a direction kept by mistake
    # would add noise of the size of the solution itself.
    cutoff = (size + ROUNDING_UNITS) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
    kept = values > cutoff
    kept[: max(0, size - reduction.sums.sample_count)] = False
    if not kept.any():
        raise SolveError(
            "the gram is zero: expected a feature that is not zero; check the features"
        )
    basis = vectors[:, kept]
    weights = basis @ ((basis.T @ target) / values[kept, None])
    missed = target - basis @ (values[kept, None] * (basis.T @ weights))
    residual = float(np.linalg.norm(missed) / np.linalg.norm(target))
    full = reduction.backward(weights)
    return LeastSquares(choice, full, 0.0, residual, "spectral", int(kept.sum()))


class Cholesky:
    """The factor L of a matrix of ``size`` columns, plus ``ridge`` times the identity.

    ``tile(rows, columns)`` gives blocks of its lower triangle. Panel k has the rows ``spans[k]`` up
    to their diagonal, and becomes those of L in place.
    """

    def __init__(
        self,
        size: int,
        tile: Callable[[tuple[int, int], tuple[int, int]], NDArray[Any]],
        ridge: float = 0.0,
        progress: Progress = no_progress,
    ) -> None:
        self.spans = [(at, min(at + HEIGHT, size)) for at in range(0, size, HEIGHT)]
        self._lower = [tile((first, last), (0, last)) for first, last in self.spans]
        for (first, last), panel in zip(self.spans, self._lower, strict=True):
            panel[np.arange(last - first), np.arange(first, last)] += ridge
        count = len(self.spans)
        with blas_for(size**3 / 3):
            for k in range(count):
                self._factor_column(k)
                progress(1 - ((count - k - 1) / count) ** 2)

    def _factor_column(self, k: int) -> None:
        """Factor a column of blocks; one product subtracts all columns left of it."""
        first, last = self.spans[k]
        left = self._lower[k][:, :first]
        corner = self._lower[k][:, first:last]
        gemm, syrk, trsm = blas.get_blas_funcs(("gemm", "syrk", "trsm"), (corner,))
        (potrf,) = lapack.get_lapack_funcs(("potrf",), (corner,))
        if first:
            syrk(-1.0, left, beta=1.0, c=corner, lower=1, overwrite_c=1)
        _, info = potrf(corner, lower=1, clean=1, overwrite_a=1)
        if info:
            raise SolveError(f"the matrix is not positive definite in {corner.dtype}")
        for panel in self._lower[k + 1 :]:
            target = panel[:, first:last]
            if first:
                gemm(-1.0, panel[:, :first], left, beta=1.0, c=target, trans_b=1, overwrite_c=1)
            trsm(1.0, corner, target, side=1, lower=1, trans_a=1, overwrite_b=1)

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """``inverse(L L') right``, (dim, width), in the factor's precision."""
        # Scaled so that float32 neither overflows nor loses a small residual.
        scale = float(np.abs(right).max(initial=0.0))
        if scale == 0.0:
            return np.zeros_like(right)
        scaled = (right / scale).astype(self._lower[0].dtype)
        return self._substitute(scaled).astype(np.float64) * scale

    def _substitute(self, right: NDArray[Any]) -> NDArray[Any]:
        """Substitute forward, then back, in place."""
        (trsm,) = blas.get_blas_funcs(("trsm",), (self._lower[0],))
        for (first, last), panel in zip(self.spans, self._lower, strict=True):
            left = right[first:last] - panel[:, :first] @ right[:first]
            right[first:last] = trsm(1.0, panel[:, first:last], left, lower=1)
        for (first, last), panel in zip(self.spans[::-1], self._lower[::-1], strict=True):
            known = trsm(1.0, panel[:, first:last], right[first:last], lower=1, trans_a=1)
            right[first:last] = known
            right[:first] -= panel[:, :first].T @ known
        return right
