"""A symmetric matrix as panels of rows up to its diagonal, and its Cholesky factor.

Little more than half the memory of a full matrix, and nearly all work in matrix products of
one panel by another, which run at the machine's GEMM rate. Panels are in column order, so that
BLAS and LAPACK change some of their columns in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from safle.errors import SolveError

HEIGHT = 1536
Progress = Callable[[float], None]
"""Called with the finished share of a long computation, 0 to 1."""


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
    """The factor L of a `PanelledMatrix`, whose panels it takes over."""

    def __init__(self, matrix: PanelledMatrix, progress: Progress | None = None) -> None:
        self.spans = matrix.spans
        self._lower, matrix.panels = matrix.panels, []
        count = len(self.spans)
        for k in range(count):
            self._factor_column(k)
            if progress is not None:
                progress(1 - ((count - k - 1) / count) ** 2)

    def _factor_column(self, k: int) -> None:
        """A column of blocks; it takes off all that lies left of it at once."""
        first, last = self.spans[k]
        left, corner = self._lower[k][:, :first], self._lower[k][:, first:last]
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
        """Forward and back, in place."""
        (trsm,) = blas.get_blas_funcs(("trsm",), (self._lower[0],))
        for (first, last), panel in zip(self.spans, self._lower, strict=True):
            left = right[first:last] - panel[:, :first] @ right[:first]
            right[first:last] = trsm(1.0, panel[:, first:last], left, lower=1)
        for (first, last), panel in zip(self.spans[::-1], self._lower[::-1], strict=True):
            known = trsm(1.0, panel[:, first:last], right[first:last], lower=1, trans_a=1)
            right[first:last] = known
            right[:first] -= panel[:, :first].T @ known
        return right
