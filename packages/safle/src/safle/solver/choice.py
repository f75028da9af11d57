"""Choose one ridge, or one for the units and one for the other columns, from the sums alone.

All columns share one ridge, which `safle.solver.ridge` chooses, unless there are units (see
`safle.encoders.codes.Layout`) and at most `MOST_COLUMNS` columns. Then the ridge of the units is
``ratio`` times that of the other columns. A ratio is a power of four: it only divides the units'
values by a power of two, so all later steps stay exact. The ratio and the ridge of the highest
evidence win: the marginal likelihood of Bayesian regression on centred columns and labels. With s
the eigenvalues of the centred gram and Q as in `safle.solver.ridge`, they minimise

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

from safle.basics.progress import Progress
from safle.encoders.codes import RANDOM, CodeSpace
from safle.solver.least_squares import require_memory
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
"""The strictest comes first, because the first of equally good ratios wins."""
NEGLIGIBLE_EVIDENCE = 2.0
"""Twice the log of a ratio of evidences: less favours neither (Kass and Raftery, 1995)."""
MOST_COLUMNS = 600
"""Every ratio costs a decomposition, so more columns than this share one ridge."""
SCATTER = 2.0
"""Times ``D^(-2/3)``: one noise matrix in thousands has an eigenvalue farther out."""
EFFORTS = (1, 3)
"""Efforts of probing a spectrum; the larger one only if the smaller leaves the ridge uncertain."""
Matrix = NDArray[np.float64]


class Choice(NamedTuple):
    """A ridge and a ratio, with the curve and the spectrum that led to them."""

    ridge: float
    ratio: float = 1.0
    """The units' ridge over that of the other columns; infinity leaves the units out."""
    curve: RidgeCurve | None = None
    spectrum: Spectrum | None = None


def choose(statistics: Sums, criterion: str, progress: Progress) -> Choice:
    """The ridges of a criterion: "gcv", "evidence" or "auto"."""
    has_blocks = statistics.layout.units > 0 and statistics.dim <= MOST_COLUMNS
    # Evidence would take noise in the gram for something that the units explain.
    if has_blocks and criterion != "gcv" and privacy_of(statistics) is None:
        ratio, curve = choose_ratio(statistics)
        # Without a residual, its logarithm outweighs all else, and evidence asks for no ridge.
        if not curve.leaves_nothing:
            return Choice(curve.best, ratio, curve)
    return _one_ridge(statistics, criterion, progress)


def _one_ridge(statistics: Sums, criterion: str, progress: Progress) -> Choice:
    # Check memory before the sweep, which takes about as long as the factorisation.
    require_memory(statistics, np.float32)
    least_ridge, reduction = noise_ridge(statistics), Reduction(statistics)
    for effort in EFFORTS:
        spectrum = spectrum_of(reduction, progress, effort=effort)
        # If noise hides the whole gram, the ridge of the noise is the only choice.
        if least_ridge and spectrum.trace <= 0:
            return Choice(least_ridge, spectrum=spectrum)
        curve = ridge_curve(
            spectrum,
            sample_count=statistics.sample_count,
            class_count=len(statistics.class_names),
            criterion=criterion,
        )
        if curve.certain:
            break
    return Choice(max(curve.best, least_ridge), 1.0, curve, spectrum)


def noise_ridge(statistics: Sums) -> float:
    """The least ridge, in real units: the largest eigenvalue of the noise; 0 without noise.

    A symmetric matrix of Gaussian noise, of deviation sigma / sqrt(2) off its diagonal, has
    eigenvalues up to ``sigma sqrt(2 D)`` (Wigner; the largest scatters by about ``D^(-2/3)`` of
    that). With a smaller ridge the weights follow the noise; a larger one shrinks what was learnt.
    """
    if not isinstance(statistics, NoisyStatistics):
        return 0.0
    noise, free = statistics.privacy, len(FreeSums(statistics.layout, 0).rows)
    products = noise.gram * math.sqrt(2 * free) * (1 + SCATTER * free ** (-2 / 3))
    # The products with the constant are sums over classes, each with noise of its own.
    totals = noise.cross * math.sqrt(free * len(statistics.class_names))
    edge = products / 2 + math.hypot(products / 2, totals)
    # The sums of one code are computed from its expert's other codes, and add up their noise.
    return edge * int(statistics.layout.table_sizes.max(initial=1))


def choose_ratio(statistics: Sums) -> tuple[float, RidgeCurve]:
    """The ratio of the highest evidence, and the evidence at that ratio."""
    reduction, n = Reduction(statistics), statistics.sample_count
    lower = reduction.gram()
    gram: Matrix = lower + np.tril(lower, -1).T
    target = reduction.forward(reduction.target)
    squares = n - float((statistics.class_counts.astype(np.float64) ** 2).sum()) / n
    if reduction.alpha:
        # Centring removes the constant, which is the first column.
        gram, target = _centred(gram, target)
    first_unit = len(gram) - statistics.layout.units
    classes = len(statistics.class_names)
    slack = min(max(MARGIN, NEGLIGIBLE_EVIDENCE / (n * max(classes - 1, 1))), MOST_SLACK)
    curve_of = partial(
        ridge_curve,
        sample_count=n,
        class_count=classes,
        criterion="evidence",
        squares=squares,
        slack=slack,
    )
    candidates: list[tuple[float, RidgeCurve]] = []
    for ratio in RATIOS:
        # A unit's scale times the root of the ratio must be a whole number.
        if ratio * statistics.layout.blocks[-1].scale ** 2 < 1:
            continue
        kept = first_unit if ratio == inf else len(gram)
        scales = np.ones(kept)
        scales[first_unit:] = ratio**-0.5
        scaled = gram[:kept, :kept] * scales * scales[:, None]
        measures = (decompose(scaled, target[:kept] * scales[:, None], n),)
        candidates.append((ratio, curve_of(Spectrum(measures, reduction.trace, min(kept, n)))))
    lowest = min(curve.scores.min() for _, curve in candidates)
    return next(pair for pair in candidates if pair[1].scores.min() <= lowest + slack)


def _centred(gram: Matrix, target: Matrix) -> tuple[Matrix, Matrix]:
    with_constant = gram[1:, 0]
    return (
        gram[1:, 1:] - with_constant[:, None] * (with_constant / gram[0, 0]),
        target[1:] - with_constant[:, None] * (target[0] / gram[0, 0]),
    )


def without_units(statistics: Sums) -> Sums:
    """The same sums, without the columns of the units."""
    if not statistics.layout.units:
        return statistics
    kept = statistics.dim - statistics.layout.units
    gram = triangle.take(statistics.gram.packed, statistics.dim, np.arange(kept))
    return replace(
        statistics,
        space=CodeSpace(statistics.fingerprint, statistics.layout.without(RANDOM)),
        cross=statistics.cross[:kept].copy(),
        gram=Triangle(gram, kept),
    )
