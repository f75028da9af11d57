"""Solver: statistics -> weights.

`solve` gives a `Solution`: ``(C + ridge I) W = M`` solved exactly and rounded once, with a head
put on it. A `RidgeCurve` says why a ridge was chosen.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.solver.heads import HEADS as HEADS
    from safle.solver.ridge import RidgeCurve as RidgeCurve
    from safle.solver.solution import Solution as Solution
    from safle.solver.solving import solve as solve

define_public_names(__name__)
