"""Solver: statistics -> weights."""

from safle.solver.facade import solve
from safle.solver.least_squares import solve_bytes
from safle.solver.ridge import RidgeCurve
from safle.solver.solution import Solution

__all__ = ["RidgeCurve", "Solution", "solve", "solve_bytes"]
