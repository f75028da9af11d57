"""The choice of the ridge, or of two of them, from the sums alone.

All columns have one ridge, by `safle.solver.ridge`, unless there are units (see
`safle.encoders.codes.Layout`) and few columns: then the units have ``ratio`` times the ridge of the
others. With a power of four that is the same as dividing their values by its root, a power of two:
so everything behind it stays exact. Of all ratios and ridges, those of the highest evidence are
taken: the marginal likelihood of Bayesian regression on centred columns and labels, with s the
eigenvalues of the centred gram and Q what its fit leaves of the centred labels,

    ``log(Q / n) + sum log(1 + s / ridge) / n``.

A ratio of infinity leaves the units out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.encoders.codes import CodeSpace
from safle.solver.least_squares import Progress, require_memory
from safle.solver.reduction import Reduction
from safle.solver.ridge import MARGIN, MOST_SLACK, RidgeCurve, ridge_curve
from safle.solver.solution import privacy_of
from safle.solver.spectrum import Spectrum, decompose, spectrum_of
from safle.statistics import triangle
from safle.statistics.free_sums import FreeSums
from safle.statistics.gram import Triangle
from safle.statistics.noisy import NoisyStatistics
from safle.statistics.value import Sums

RATIOS = (inf, 1024.0, 256.0, 64.0, 16.0, 4.0, 1.0, 1 / 4, 1 / 16)
"""The strictest first: of ratios that are as good, it is taken."""
WORTH_A_MENTION = 2.0
"""Twice the logarithm of a ratio of evidences: less is none (Kass and Raftery, 1995)."""
MOST_COLUMNS = 600
"""Every ratio takes a decomposition: of more columns, all have one ridge."""
SCATTER = 2.0
"""Times ``D^(-2/3)``: an eigenvalue of noise farther out is one in thousands."""
EFFORTS = (1, 3)
"""Efforts of probing a spectrum; the larger one only if the smaller leaves the ridge uncertain."""
Matrix = NDArray[np.float64]


class Choice(NamedTuple):
    """What was chosen, and what led to it."""

    ridge: float
    ratio: float = 1.0
    """Of the units' ridge to that of the other columns; infinity leaves them out."""
    curve: RidgeCurve | None = None
    spectrum: Spectrum | None = None


def choose(statistics: Sums, criterion: str, progress: Progress) -> Choice:
    """The ridges of a criterion: "gcv", "evidence" or "auto"."""
    few = statistics.layout.units > 0 and statistics.dim <= MOST_COLUMNS
    # What noise adds to the gram would be taken for what units explain.
    if few and criterion != "gcv" and privacy_of(statistics) is None:
        ratio, curve = choose_blocks(statistics)
        # The logarithm of no residual outweighs everything else: evidence then asks for no ridge.
        if not curve.leaves_nothing:
            return Choice(curve.best, ratio, curve)
    return _one_ridge(statistics, criterion, progress)


def _one_ridge(statistics: Sums, criterion: str, progress: Progress) -> Choice:
    # Check memory before the sweep, which takes about as long as the factorisation.
    require_memory(statistics, np.float32)
    least, reduction = noise_ridge(statistics), Reduction(statistics)
    for effort in EFFORTS:
        spectrum = spectrum_of(statistics, reduction, progress, effort=effort)
        # If noise hides the whole gram, the ridge of the noise is the only choice.
        if least and spectrum.trace <= 0:
            return Choice(least, spectrum=spectrum)
        curve = ridge_curve(
            spectrum,
            sample_count=statistics.sample_count,
            class_count=len(statistics.class_names),
            criterion=criterion,
        )
        if curve.certain:
            break
    return Choice(max(curve.best, least), 1.0, curve, spectrum)


def noise_ridge(statistics: Sums) -> float:
    """The least ridge, in real units: the largest eigenvalue of noise; 0 of exact statistics.

    A symmetric matrix of Gaussian noise, of deviation sigma / sqrt(2) beside its diagonal, has
    eigenvalues up to ``sigma sqrt(2 D)`` (Wigner; the last of them scatters by about ``D^(-2/3)``
    of that). With a smaller ridge weights follow the noise; a larger one takes away what was
    learnt.
    """
    if not isinstance(statistics, NoisyStatistics):
        return 0.0
    noise, free = statistics.privacy, len(FreeSums(statistics.layout, 0).rows)
    products = noise.gram * math.sqrt(2 * free) * (1 + SCATTER * free ** (-2 / 3))
    # The products with the constant are sums over classes, each with noise of its own.
    totals = noise.cross * math.sqrt(free * len(statistics.class_names))
    edge = products / 2 + math.hypot(products / 2, totals)
    # A code that follows from the others of its expert adds up their noise.
    return edge * max(statistics.layout.table_sizes, default=1)


def choose_blocks(statistics: Sums) -> tuple[float, RidgeCurve]:
    """The ratio of the highest evidence, and the evidence at that ratio."""
    reduction = Reduction(statistics)
    size, n = reduction.reduced_dim, statistics.sample_count
    lower = reduction.tile((0, size), (0, size), np.float64)
    gram: Matrix = np.tril(lower).astype(np.float64) + np.tril(lower, -1).T
    target = reduction.forward(statistics.cross * reduction.real[:, None])
    squares = n - float((statistics.class_counts.astype(np.float64) ** 2).sum()) / n
    if reduction.alpha:
        # Without the constant, which stands first: what is centred has none.
        gram, target = _centred(gram, target)
    plain = len(gram) - statistics.layout.units
    trace = float((statistics.diagonal * reduction.real**2).sum())
    classes = len(statistics.class_names)
    slack = min(max(MARGIN, WORTH_A_MENTION / (n * max(classes - 1, 1))), MOST_SLACK)
    curve_of = partial(
        ridge_curve,
        sample_count=n,
        class_count=classes,
        criterion="evidence",
        squares=squares,
        slack=slack,
    )
    found: list[tuple[float, RidgeCurve]] = []
    for ratio in RATIOS:
        # The scale of a unit, times the root of its ratio, is a whole number.
        if ratio * statistics.layout.dense_scales[-1] ** 2 < 1:
            continue
        kept = plain if ratio == inf else len(gram)
        worth = np.ones(kept)
        worth[plain:] = ratio**-0.5
        part = gram[:kept, :kept] * worth * worth[:, None]
        sides = (decompose(part, target[:kept] * worth[:, None], n),)
        found.append((ratio, curve_of(Spectrum(sides, trace, min(kept, n)))))
    lowest = min(curve.scores.min() for _, curve in found)
    return next(pair for pair in found if pair[1].scores.min() <= lowest + slack)


def _centred(gram: Matrix, target: Matrix) -> tuple[Matrix, Matrix]:
    across = gram[1:, 0]
    return (
        gram[1:, 1:] - across[:, None] * (across / gram[0, 0]),
        target[1:] - across[:, None] * (target[0] / gram[0, 0]),
    )


def without_units(statistics: Sums) -> Sums:
    """The same sums of all other columns."""
    if not statistics.layout.units:
        return statistics
    kept = statistics.dim - statistics.layout.units
    gram = triangle.take(statistics.gram.packed, statistics.dim, np.arange(kept))
    return replace(
        statistics,
        space=CodeSpace(statistics.fingerprint, statistics.layout.without_units()),
        cross=statistics.cross[:kept].copy(),
        gram=Triangle(gram, kept),
    )
