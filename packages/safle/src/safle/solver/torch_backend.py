"""Panel operations by torch: on a GPU where there is one, on the CPU otherwise."""

from __future__ import annotations

import importlib.util
import time
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import MissingExtra, SolveError
from safle.solver.panels import HEIGHT, Backend, ScipyBackend

WORTH_COPYING = 0.8


def installed() -> bool:
    """Whether torch can be imported; does not import it."""
    return importlib.util.find_spec("torch") is not None


class TorchBackend:
    """Torch tensors in column order on one device."""

    name = "torch"

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra("torch", "safle[torch]", "the torch solver backend") from error
        self._torch = torch
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def load(self, panel: NDArray[Any]) -> Any:
        return self._torch.from_numpy(panel).to(self._device)

    def unload(self, panel: Any) -> NDArray[Any]:
        return np.asfortranarray(panel.cpu().numpy())

    def factor(self, target: Any) -> None:
        lower, info = self._torch.linalg.cholesky_ex(target)
        if int(info):
            raise SolveError(f"the matrix is not positive definite in {target.dtype}")
        target.copy_(lower)

    def divide(self, target: Any, factor: Any) -> None:
        solve = self._torch.linalg.solve_triangular
        target.copy_(solve(factor.T, target, upper=True, left=False))

    def subtract_product(self, target: Any, left: Any, right: Any) -> None:
        target.addmm_(left, right.T, alpha=-1)

    def subtract_square(self, target: Any, left: Any) -> None:
        self.subtract_product(target, left, left)


@cache
def multiplies_faster() -> bool:
    """Whether torch multiplies two panels faster than SciPy's BLAS on this machine.

    Nearly all work of a solve is such products, and which library has the better ones depends
    on the processor. Both are tried, once: some 50 ms. About as fast is not enough: the rest
    of a solve is SciPy's.
    """
    seconds = {
        backend.name: _product_seconds(backend) for backend in (TorchBackend(), ScipyBackend())
    }
    return seconds["torch"] < WORTH_COPYING * seconds["scipy"]


def _product_seconds(backend: Backend) -> float:
    """The best of a few, the first of which wakes the threads."""
    blocks = [np.full((HEIGHT, HEIGHT), value, np.float32, order="F") for value in range(3)]
    target, left, right = map(backend.load, blocks)
    found = []
    for _ in range(4):
        begun = time.perf_counter()
        # Read back, since a GPU answers before it is done.
        backend.subtract_product(target, left, right)
        backend.unload(target)
        found.append(time.perf_counter() - begun)
    return min(found)
