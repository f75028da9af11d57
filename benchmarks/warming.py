"""Before the clock or the memory gauge runs: kernels compiled, libraries loaded."""

from __future__ import annotations

from safle import Statistics, solve
from safle.solver.torch_backend import installed


def load_solver(small: Statistics) -> None:
    """Solve something small both ways, with the library that large systems use."""
    solve(small)
    solve(small, ridge=1000.0, backend="torch" if installed() else "scipy")
