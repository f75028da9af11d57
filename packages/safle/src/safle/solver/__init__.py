"""Solver: statistics -> weights.

`solve` gives a `Solution`: ``(C + ridge I) W = M`` solved exactly and rounded once, with a head
put on it. A `RidgeCurve` says why a ridge was chosen.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.solver.facade import solve
    from safle.solver.ridge import RidgeCurve
    from safle.solver.solution import HEADS, Solution

__all__ = ["HEADS", "RidgeCurve", "Solution", "solve"]

__getattr__ = front_door(__name__)
