"""Choose the ridge from the sums alone.

All columns share one ridge. `safle.solver.ridge` chooses it by cross-validation, unless there are
random columns and at most `MAX_COLUMNS` columns in all. Then the ridge of the highest evidence
wins: the marginal likelihood of Bayesian regression on centred columns and labels. With s the
eigenvalues of the centred gram and Q as in `safle.solver.ridge`, it minimises

    ``log(Q / n) + sum log(1 + s / ridge) / n``.

Where there are products, half of the ridge of cross-validation is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from safle.basics.progress import Progress
from safle.encoders.codes import PRODUCTS, RANDOM
from safle.solver.least_squares import require_memory
from safle.solver.reduction import Reduction
from safle.solver.ridge import MARGIN, MAX_MARGIN, RidgeCurve, ridge_curve
from safle.solver.spectrum import Spectrum, decompose, spectrum_of
from safle.statistics.statistics import Sums

NEGLIGIBLE_EVIDENCE = 2.0
"""Twice the log of a ratio of evidences: less favours neither (Kass and Raftery, 1995)."""
MAX_COLUMNS = 600
"""With more columns, we have not measured whether evidence chooses better than cross-validation."""
SHARE_FOR_PRODUCTS = 0.5
"""Of the ridge of cross-validation: docs/trials.md."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """A ridge, and what led to it.

    Attributes
    ----------
    reduction : of the sums that are solved with it
    ridge : the strength asked for
    curve : the criterion, where the ridge was chosen
    spectrum : of the gram, where the choice needed it
    """

    reduction: Reduction
    ridge: float
    curve: RidgeCurve | None = None
    spectrum: Spectrum | None = None


def choose_ridge(
    sums: Sums, ridge: float | Literal["auto"], criterion: str, progress: Progress
) -> RidgeChoice:
    """The given ridge, or that of a criterion: "gcv", "evidence" or "auto"."""
    reduction = Reduction(sums)
    if ridge != "auto":
        return RidgeChoice(reduction, ridge)
    has_random_columns = len(sums.layout.block(RANDOM)) > 0
    # Evidence would mistake noise in the gram for something that the columns explain.
    if (
        has_random_columns
        and sums.dim <= MAX_COLUMNS
        and criterion != "gcv"
        and not sums.least_ridge
    ):
        curve = _centred_evidence(reduction)
        # A zero residual makes the log term diverge, so the evidence would choose no ridge.
        if curve is not None and not curve.is_perfect:
            return RidgeChoice(reduction, curve.best, curve)
    return _by_spectrum(reduction, criterion, progress)


def _by_spectrum(reduction: Reduction, criterion: str, progress: Progress) -> RidgeChoice:
    sums = reduction.sums
    if reduction.root is None:
        # Before the sweep, which takes about as long as the factorisation.
        require_memory(sums, np.float32)
    spectrum = spectrum_of(reduction, progress)
    # If noise hides the whole gram, the ridge of the noise is the only choice.
    if sums.least_ridge and spectrum.trace <= 0:
        return RidgeChoice(reduction, sums.least_ridge, spectrum=spectrum)
    curve = ridge_curve(
        spectrum,
        sample_count=sums.sample_count,
        class_count=len(sums.class_names),
        criterion=criterion,
    )
    halved = sums.layout.block(PRODUCTS) and curve.criterion == "gcv"
    share = SHARE_FOR_PRODUCTS if halved else 1.0
    return RidgeChoice(reduction, max(share * curve.best, sums.least_ridge), curve, spectrum)


def _centred_evidence(reduction: Reduction) -> RidgeCurve | None:
    """The evidence of centred columns and labels; None where centring leaves too few columns."""
    sums = reduction.sums
    n = sums.sample_count
    lower = reduction.gram()
    gram: Matrix = lower + np.tril(lower, -1).T
    target = reduction.forward(reduction.target)
    if reduction.alpha:
        # Centring removes the constant, which is the first column.
        gram, target = _centred(gram, target)
    if len(gram) < 2:
        return None
    classes = len(sums.class_names)
    negligible = NEGLIGIBLE_EVIDENCE / (n * max(classes - 1, 1))
    rank = min(len(gram), n)
    return ridge_curve(
        Spectrum(*decompose(gram, target, rank), reduction.trace, rank),
        sample_count=n,
        class_count=classes,
        criterion="evidence",
        squares=n - float((sums.class_counts.astype(np.float64) ** 2).sum()) / n,
        margin=min(max(MARGIN, negligible), MAX_MARGIN),
    )


def _centred(gram: Matrix, target: Matrix) -> tuple[Matrix, Matrix]:
    with_constant = gram[1:, 0]
    return (
        gram[1:, 1:] - with_constant[:, None] * (with_constant / gram[0, 0]),
        target[1:] - with_constant[:, None] * (target[0] / gram[0, 0]),
    )
