"""Solver: statistics -> weights."""

from safle.solver.facade import Solution, solve, solve_bytes
from safle.solver.ridge import RidgeCurve

__all__ = ["RidgeCurve", "Solution", "solve", "solve_bytes"]
