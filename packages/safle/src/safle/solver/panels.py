"""A symmetric matrix as panels of rows up to its diagonal, and its Cholesky factor.

Little more than half the memory of a full matrix, and nearly all work in matrix products of
one panel by another, which run at the machine's GEMM rate. The operations come from SciPy's
BLAS or from torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from safle.errors import SolveError
from safle.solver.substitution import THIN, allocate_rows, take_panel, take_panel_back

HEIGHT = 1536
Progress = Callable[[float], None]
"""Called with the finished share of a long computation, 0 to 1."""

Panel = Any
"""Some columns of a panel as a backend holds them: an array, or a view of one."""


class Backend(Protocol):
    """Operations in place; ``load`` and ``unload`` convert from and to NumPy, column order."""

    name: str

    def load(self, panel: NDArray[Any]) -> Panel: ...
    def unload(self, panel: Panel) -> NDArray[Any]: ...
    def factor(self, target: Panel) -> None:
        """``target`` becomes its lower Cholesky factor; `SolveError` where there is none."""

    def divide(self, target: Panel, factor: Panel) -> None:
        """``target @ inverse(factor).T``."""

    def subtract_product(self, target: Panel, left: Panel, right: Panel) -> None:
        """``target - left @ right.T``."""

    def subtract_square(self, target: Panel, left: Panel) -> None:
        """``target - left @ left.T``; the lower half is enough."""


class ScipyBackend:
    """NumPy arrays in column order, whose columns SciPy's BLAS changes in place."""

    name = "scipy"

    def load(self, panel: NDArray[Any]) -> NDArray[Any]:
        return panel

    def unload(self, panel: NDArray[Any]) -> NDArray[Any]:
        return panel

    def factor(self, target: NDArray[Any]) -> None:
        (potrf,) = lapack.get_lapack_funcs(("potrf",), (target,))
        _, info = potrf(target, lower=1, clean=1, overwrite_a=1)
        if info:
            raise SolveError(f"the matrix is not positive definite in {target.dtype}")

    def divide(self, target: NDArray[Any], factor: NDArray[Any]) -> None:
        (trsm,) = blas.get_blas_funcs(("trsm",), (target,))
        trsm(1.0, factor, target, side=1, lower=1, trans_a=1, overwrite_b=1)

    def subtract_product(
        self, target: NDArray[Any], left: NDArray[Any], right: NDArray[Any]
    ) -> None:
        (gemm,) = blas.get_blas_funcs(("gemm",), (target,))
        gemm(-1.0, left, right, beta=1.0, c=target, trans_b=1, overwrite_c=1)

    def subtract_square(self, target: NDArray[Any], left: NDArray[Any]) -> None:
        (syrk,) = blas.get_blas_funcs(("syrk",), (target,))
        syrk(-1.0, left, beta=1.0, c=target, lower=1, overwrite_c=1)


class PanelledMatrix:
    """Rows ``spans[k]`` up to their diagonal, for every k; ``make(rows, columns)`` gives them."""

    def __init__(
        self, dim: int, make: Callable[[tuple[int, int], tuple[int, int]], NDArray[Any]]
    ) -> None:
        self.dim = dim
        self.spans = [(at, min(at + HEIGHT, dim)) for at in range(0, dim, HEIGHT)]
        self.panels = [make((first, last), (0, last)) for first, last in self.spans]

    def add_to_diagonal(self, value: float) -> None:
        """Add ``value`` times the identity, in place."""
        for (first, last), panel in zip(self.spans, self.panels, strict=True):
            panel[np.arange(last - first), np.arange(first, last)] += value


class Cholesky:
    """The factor L of a `PanelledMatrix`, whose panels it uses up."""

    def __init__(
        self, matrix: PanelledMatrix, backend: Backend, progress: Progress | None = None
    ) -> None:
        self.spans = matrix.spans
        panels: list[Panel] = []
        while matrix.panels:
            panels.append(backend.load(matrix.panels.pop(0)))
        self._factor(panels, backend, progress)
        self._lower: list[NDArray[Any]] = []
        while panels:
            self._lower.append(backend.unload(panels.pop(0)))

    def _factor(self, panels: list[Panel], backend: Backend, progress: Progress | None) -> None:
        """Column by column of blocks; each takes off all that lies left of it at once."""
        count = len(panels)
        for k, (first, last) in enumerate(self.spans):
            left, corner = panels[k][:, :first], panels[k][:, first:last]
            if first:
                backend.subtract_square(corner, left)
            backend.factor(corner)
            for below in panels[k + 1 :]:
                if first:
                    backend.subtract_product(below[:, first:last], below[:, :first], left)
                backend.divide(below[:, first:last], corner)
            if progress is not None:
                progress(1 - ((count - k - 1) / count) ** 2)

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """``inverse(L L') right``, (dim, width), in the factor's precision."""
        # Scaled so that float32 neither overflows nor loses a small residual.
        scale = float(np.abs(right).max(initial=0.0))
        if scale == 0.0:
            return np.zeros_like(right)
        scaled = (right / scale).astype(self._lower[0].dtype)
        solve = self._solve_thin if right.shape[1] <= THIN else self._solve_wide
        return solve(scaled).astype(np.float64) * scale

    def _solve_thin(self, right: NDArray[Any]) -> NDArray[Any]:
        rows = allocate_rows(right)
        for (first, _), panel in zip(self.spans, self._lower, strict=True):
            take_panel(panel, first, rows)
        for (first, _), panel in zip(self.spans[::-1], self._lower[::-1], strict=True):
            take_panel_back(panel, first, rows)
        return rows[:, : len(right)].T

    def _solve_wide(self, right: NDArray[Any]) -> NDArray[Any]:
        (trsm,) = blas.get_blas_funcs(("trsm",), (self._lower[0],))
        for (first, last), panel in zip(self.spans, self._lower, strict=True):
            left = right[first:last] - panel[:, :first] @ right[:first]
            right[first:last] = trsm(1.0, panel[:, first:last], left, lower=1)
        for (first, last), panel in zip(self.spans[::-1], self._lower[::-1], strict=True):
            known = trsm(1.0, panel[:, first:last], right[first:last], lower=1, trans_a=1)
            right[first:last] = known
            right[:first] -= panel[:, :first].T @ known
        return right
