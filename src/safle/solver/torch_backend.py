"""Tile operations by torch: on a GPU where there is one, on the CPU otherwise."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import MissingExtra, SolveError


def installed() -> bool:
    """Whether torch can be imported; does not import it."""
    return importlib.util.find_spec("torch") is not None


class TorchBackend:
    """Row-major torch tiles on one device."""

    name = "torch"

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra("torch", "torch", "the torch solver backend") from error
        self._torch = torch
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def load(self, block: NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(block)).to(self._device)

    def unload(self, tile: Any) -> NDArray[Any]:
        result: NDArray[Any] = tile.cpu().numpy()
        return result

    def factor(self, tile: Any) -> Any:
        lower, info = self._torch.linalg.cholesky_ex(tile)
        if int(info):
            raise SolveError(f"the matrix is not positive definite in {tile.dtype}")
        return lower

    def divide(self, tile: Any, factor: Any) -> Any:
        return self._torch.linalg.solve_triangular(factor.T, tile, upper=True, left=False)

    def subtract_product(self, target: Any, left: Any, right: Any) -> Any:
        return target.addmm_(left, right.T, alpha=-1)
