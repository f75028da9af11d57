"""A symmetric matrix in square tiles, lower triangle only, and its Cholesky factor.

Half the memory of a full matrix, and nearly all work in matrix products of one tile by
another, which run at the machine's GEMM rate (LAPACK's own factorisation runs at half of
it). The tile operations come from SciPy's BLAS or from torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from safle.errors import SolveError

TILE = 1024
Progress = Callable[[float], None]
"""Called with the finished share of a long computation, 0 to 1."""

Tile = Any
"""A tile as a backend holds it."""


class Backend(Protocol):
    """Operations on tiles; ``load`` and ``unload`` convert from and to NumPy."""

    name: str

    def load(self, block: NDArray[Any]) -> Tile: ...
    def unload(self, tile: Tile) -> NDArray[Any]: ...
    def factor(self, tile: Tile) -> Tile:
        """Lower Cholesky factor; `SolveError` if the tile is not positive definite."""

    def divide(self, tile: Tile, factor: Tile) -> Tile:
        """``tile @ inverse(factor).T``."""

    def subtract_product(self, target: Tile, left: Tile, right: Tile) -> Tile:
        """``target - left @ right.T``; where both are one tile, the lower half is enough."""


class ScipyBackend:
    """Fortran-ordered NumPy tiles, updated in place by SciPy's BLAS."""

    name = "scipy"

    def load(self, block: NDArray[Any]) -> NDArray[Any]:
        return block

    def unload(self, tile: NDArray[Any]) -> NDArray[Any]:
        return tile

    def factor(self, tile: NDArray[Any]) -> NDArray[Any]:
        (potrf,) = lapack.get_lapack_funcs(("potrf",), (tile,))
        lower, info = potrf(tile, lower=1, clean=1, overwrite_a=1)
        if info:
            raise SolveError(f"the matrix is not positive definite in {tile.dtype}")
        result: NDArray[Any] = lower
        return result

    def divide(self, tile: NDArray[Any], factor: NDArray[Any]) -> NDArray[Any]:
        (trsm,) = blas.get_blas_funcs(("trsm",), (tile,))
        result: NDArray[Any] = trsm(1.0, factor, tile, side=1, lower=1, trans_a=1, overwrite_b=1)
        return result

    def subtract_product(
        self, target: NDArray[Any], left: NDArray[Any], right: NDArray[Any]
    ) -> NDArray[Any]:
        gemm, syrk = blas.get_blas_funcs(("gemm", "syrk"), (target,))
        result: NDArray[Any]
        if left is right:
            result = syrk(-1.0, left, beta=1.0, c=target, lower=1, overwrite_c=1)
        else:
            result = gemm(-1.0, left, right, beta=1.0, c=target, trans_b=1, overwrite_c=1)
        return result


def _invert_lower(tile: NDArray[Any]) -> NDArray[Any]:
    (trtri,) = lapack.get_lapack_funcs(("trtri",), (tile,))
    inverse, info = trtri(tile, lower=1)
    if info:
        raise SolveError("a diagonal tile of the factor is singular")
    result: NDArray[Any] = np.tril(inverse)
    return result


class TiledMatrix:
    """Lower tiles of a symmetric matrix; ``make(rows, columns)`` gives a block."""

    def __init__(
        self, dim: int, make: Callable[[tuple[int, int], tuple[int, int]], NDArray[Any]]
    ) -> None:
        self.dim = dim
        self.spans = [(at, min(at + TILE, dim)) for at in range(0, dim, TILE)]
        self.tiles: dict[tuple[int, int], NDArray[Any]] = {
            (i, j): make(self.spans[i], self.spans[j]) for i, j in self.places()
        }

    def places(self) -> Iterator[tuple[int, int]]:
        """Positions of the lower tiles."""
        return ((i, j) for i in range(len(self.spans)) for j in range(i + 1))

    def add_to_diagonal(self, value: float) -> None:
        """Add ``value`` times the identity, in place."""
        for k in range(len(self.spans)):
            tile = self.tiles[k, k]
            tile[np.diag_indices(len(tile))] += value


class Cholesky:
    """The factor L of a `TiledMatrix`, whose tiles it uses up."""

    def __init__(
        self, matrix: TiledMatrix, backend: Backend, progress: Progress | None = None
    ) -> None:
        self.spans, self.backend = matrix.spans, backend
        self.tiles: dict[tuple[int, int], Tile] = {}
        while matrix.tiles:
            place, block = matrix.tiles.popitem()
            self.dtype = block.dtype
            self.tiles[place] = backend.load(block)
        self._factor(progress)
        self._lower = {place: backend.unload(tile) for place, tile in self.tiles.items()}
        # Thin triangular solves run at a tenth of the rate of thin products; with the
        # inverses of the small diagonal tiles there are only products left.
        self._inverse = [_invert_lower(self._lower[k, k]) for k in range(len(self.spans))]

    def _factor(self, progress: Progress | None) -> None:
        tiles, backend, count = self.tiles, self.backend, len(self.spans)
        for k in range(count):
            tiles[k, k] = backend.factor(tiles[k, k])
            for i in range(k + 1, count):
                tiles[i, k] = backend.divide(tiles[i, k], tiles[k, k])
            for i in range(k + 1, count):
                for j in range(k + 1, i + 1):
                    tiles[i, j] = backend.subtract_product(tiles[i, j], tiles[i, k], tiles[j, k])
            if progress is not None:
                progress(1 - ((count - k - 1) / count) ** 3)

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """``inverse(L L') right``, (dim, width), in the factor's precision."""
        # Scaled so that float32 neither overflows nor loses a small residual.
        scale = float(np.abs(right).max(initial=0.0))
        if scale == 0.0:
            return np.zeros_like(right)
        parts = [np.asfortranarray(right[a:b] / scale, dtype=self.dtype) for a, b in self.spans]
        count = len(parts)
        for k in range(count):
            for j in range(k):
                parts[k] -= self._lower[k, j] @ parts[j]
            parts[k] = self._inverse[k] @ parts[k]
        for k in reversed(range(count)):
            for j in range(k + 1, count):
                parts[k] -= self._lower[j, k].T @ parts[j]
            parts[k] = self._inverse[k].T @ parts[k]
        return np.concatenate(parts).astype(np.float64) * scale
