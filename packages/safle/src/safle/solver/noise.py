"""The ridge that noisy statistics need: as large as the largest eigenvalue of their noise.

A symmetric matrix of Gaussian noise, of deviation sigma / sqrt(2) beside its diagonal, has
eigenvalues up to ``sigma sqrt(2 D)`` (Wigner; the last of them scatters by about ``D^(-2/3)`` of
that). A smaller ridge leaves the gram indefinite, and weights follow the noise; a larger one
takes away what was learnt.
"""

from __future__ import annotations

import math

from safle.statistics.free_sums import FreeSums
from safle.statistics.noisy import NoisyStatistics, Privacy
from safle.statistics.value import Sums

SCATTER = 2.0
"""Times ``D^(-2/3)``: an eigenvalue farther out is one in thousands."""


def privacy_of(statistics: Sums) -> Privacy | None:
    """What was promised, of noisy statistics."""
    return statistics.privacy if isinstance(statistics, NoisyStatistics) else None


def noise_ridge(statistics: Sums) -> float:
    """The least ridge, in real units; 0 of exact statistics."""
    if not isinstance(statistics, NoisyStatistics):
        return 0.0
    noise, free = statistics.privacy, len(FreeSums(statistics.layout, 0).rows)
    products = noise.gram * math.sqrt(2 * free) * (1 + SCATTER * free ** (-2 / 3))
    # The products with the constant are sums over classes, each with noise of its own.
    totals = noise.cross * math.sqrt(free * len(statistics.class_names))
    edge = products / 2 + math.hypot(products / 2, totals)
    # A code that follows from the others of its expert adds up their noise.
    return edge * max(statistics.layout.table_sizes, default=1)
