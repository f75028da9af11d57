"""Solver: statistics -> weights.

`solve` gives a `Solution`: ``(C + ridge I) W = M`` solved exactly and rounded once, with a head
put on it. A `RidgeCurve` says why a ridge was chosen.
"""
