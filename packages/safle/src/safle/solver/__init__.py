"""Solver: statistics -> weights.

`solve` gives a `Solution`: ``(C + ridge I) W = M`` solved exactly and rounded once, with a head
put on it. Where the ridge is chosen, its `RidgeCurve` says why; `solve_bytes` says beforehand how
much memory it takes.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.solver.facade import solve
    from safle.solver.least_squares import solve_bytes
    from safle.solver.ridge import RidgeCurve
    from safle.solver.solution import HEADS, Solution

__all__ = ["HEADS", "RidgeCurve", "Solution", "solve", "solve_bytes"]

__getattr__ = front_door(__name__)
