"""statistics -> weights: one call, whatever the ridge, the head or the machine."""

from __future__ import annotations

import logging
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from safle.basics.texts import require_type
from safle.errors import InvalidInput, SolveError
from safle.solver.choice import Choice, choose, without_units
from safle.solver.heads import Priors, put_head, shift_of
from safle.solver.least_squares import Progress, least_squares
from safle.solver.quadratic import average, can_square, quadratic, require_squares, share
from safle.solver.reduction import Reduction
from safle.solver.ridge import CRITERIA, degrees_of_freedom
from safle.solver.solution import HEADS, Solution, digest_of_sum, privacy_of
from safle.solver.spectrum import spectrum_of
from safle.statistics.noisy import NoisyStatistics
from safle.statistics.value import Statistics, Sums

log = logging.getLogger(__name__)
Head = Literal["auto", "least-squares", "discriminant", "averaged", "quadratic"]
Criterion = Literal["auto", "gcv", "evidence"]
MOST_CLASSES = 10_000
NOISY_TRIES = 8
"""Ridges that are tried for noisy statistics, each twice the one before."""


def solve(
    statistics: Sums,
    *,
    ridge: float | Literal["auto"] = "auto",
    head: Head = "auto",
    criterion: Criterion = "auto",
    priors: Priors | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Weights from statistics.

    Parameters
    ----------
    ridge : a positive number for all columns; 0 for the minimum-norm solution; "auto" chooses it by
        ``criterion`` from the statistics alone, and for noisy statistics at least as large as their
        noise. The quadratic head adds ``ridge / sample_count`` to the diagonal of each covariance.
    head : "least-squares" (the paper's), "discriminant" (LDA), "quadratic" (a covariance for
        each class, of statistics counted by class), "averaged" (the mean of the heads that the
        statistics allow), or "auto": averaged if there are two classes or more, with scatter
        within them, else least-squares
    criterion : "gcv"; "evidence", which gives units a ridge of their own, or leaves them out, where
        there are at most 600 columns and the fit leaves a residual; or "auto": "evidence" there,
        and "gcv" elsewhere
    priors : how frequent classes are where the model is used: "uniform", or a number for each
        class; None for the frequencies that were counted. Least squares takes no priors.
    progress : called with the finished share, 0 to 1

    Examples
    --------
    Equivalent to ``scipy.linalg.solve(C + ridge * I, M, assume_a="pos")`` in exact arithmetic:

    >>> from safle import DeclaredRange, count, make_encoder
    >>> encoder = make_encoder(DeclaredRange(0, 1, feature_dim=1), kind="linear")
    >>> total = count(encoder, [[0.0], [0.1], [0.9], [1.0]], ["low", "low", "high", "high"])
    >>> solution = solve(total, ridge=1.0)
    >>> solution.class_names, solution.head
    (('high', 'low'), 'averaged')
    """
    advice = "read_statistics(path) of a file, sum_statistics of several"
    require_type("statistics", statistics, Statistics, NoisyStatistics, advice=advice)
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    _check_ridge(ridge, head)
    _check_statistics(statistics)
    shift = _shift(priors, head, statistics)
    report = _rising(progress)
    several = len(statistics.class_names) > 1
    if head == "quadratic":
        require_squares(statistics)
        solved = _solve_squares(statistics, ridge, criterion, report)
    elif head in ("auto", "averaged") and ridge != 0 and several and can_square(statistics):
        solved = _solve_averaged(statistics, ridge, head, criterion, report)
    else:
        solved = _solve_linear(statistics, ridge, head, criterion, report)
    if report is not None:
        report(1.0)
    log.info("solved: %r", solved)
    return _with_priors(solved, shift)


def _check_statistics(statistics: Sums) -> None:
    if not statistics.sample_count:
        raise InvalidInput("the statistics hold no samples; nothing can be solved")
    if len(statistics.class_names) > MOST_CLASSES:
        raise InvalidInput(
            f"{len(statistics.class_names)} classes; at most {MOST_CLASSES} are solved at once: "
            "take out the contributions that brought them, or merge classes before counting"
        )


def _shift(priors: Priors | None, head: str, statistics: Sums) -> NDArray[np.float64] | None:
    """What priors add to log posteriors, (class_count,); None if no priors are given."""
    if head not in ("auto", *HEADS):
        raise InvalidInput(f"head {head!r}; expected one of auto, {', '.join(HEADS)}")
    if priors is not None and head == "least-squares":
        raise InvalidInput(
            "least-squares scores have no priors: take head 'discriminant' or 'averaged', or leave "
            "priors out"
        )
    if priors is None:
        return None
    return shift_of(priors, statistics.class_names, statistics.class_counts)


def _with_priors(solution: Solution, shift: NDArray[np.float64] | None) -> Solution:
    # "auto" falls back to least squares, whose scores cannot be shifted.
    if shift is None or solution.head == "least-squares":
        return solution
    moved = solution.intercept + (solution.temperature or 1.0) * shift
    return replace(solution, intercept=moved)


def _solve_linear(
    statistics: Sums,
    ridge: float | Literal["auto"],
    head: Head,
    criterion: Criterion,
    progress: Progress | None,
) -> Solution:
    """Choose a ridge, solve the linear system and put a head of weights on it."""
    if ridge == "auto":
        choice = choose(statistics, criterion, _share(progress, 0.0, 0.6))
    else:
        choice = Choice(ridge)
    left_out = choice.ratio == np.inf
    kept = without_units(statistics) if left_out else statistics
    reduction = Reduction(kept, 1.0 if left_out else choice.ratio)
    solving_progress = _share(progress, 0.0 if choice.curve is None else 0.6, 0.95)
    tries = NOISY_TRIES if choice.least else 1
    plain = least_squares(kept, reduction, choice.ridge, solving_progress, tries)

    def freedom() -> float:
        return degrees_of_freedom(choice.spectrum or spectrum_of(kept, reduction), plain.ridge)

    # Noisy sums do not show how the noise changes scores, so they give no temperature.
    freedom_if_known = None if choice.least or privacy_of(statistics) else freedom
    solved = replace(plain, curve=choice.curve)
    solved = put_head(head, kept, solved, reduction.real, freedom_if_known)
    return solved if choice.ratio == 1 else _with_units(solved, statistics, choice.ratio)


def _solve_squares(
    statistics: Sums,
    ridge: float | Literal["auto"],
    criterion: Criterion,
    progress: Progress | None,
) -> Solution:
    """The quadratic head, with ridge and temperature of the discriminant of the same columns."""
    linear = _solve_linear(without_units(statistics), ridge, "discriminant", criterion, progress)
    return quadratic(statistics, linear)


def _solve_averaged(
    statistics: Sums,
    ridge: float | Literal["auto"],
    head: Head,
    criterion: Criterion,
    progress: Progress | None,
) -> Solution:
    """The mean of linear heads and the quadratic one; of "auto", what can be had of it."""
    part = share(statistics)
    linear = None
    if part < 1:
        linear = _solve_linear(statistics, ridge, head, criterion, progress)
    try:
        squared = _solve_squares(statistics, "auto" if linear else ridge, criterion, None)
    except SolveError:
        if head != "auto":
            raise
        return linear or _solve_linear(statistics, ridge, head, criterion, progress)
    if linear is None:
        return replace(squared, head="averaged")
    if linear.head == "least-squares":
        return linear
    return average(linear, squared, part)


def _with_units(solved: Solution, statistics: Sums, ratio: float) -> Solution:
    """The solution in the real units of the layout, with zero weights for left-out columns."""
    weights = np.zeros((statistics.dim, solved.weights.shape[1]))
    weights[: len(solved.weights)] = solved.weights
    weights[statistics.dim - statistics.layout.units :] *= ratio**-0.5
    return replace(
        solved,
        space=statistics.space,
        weights=weights,
        sum_digest=digest_of_sum(statistics),
        units_ratio=ratio,
    )


def _check_ridge(ridge: Any, head: str) -> None:
    if isinstance(ridge, str) and ridge == "auto":
        return
    if not isinstance(ridge, Real) or not 0 <= float(ridge) < np.inf:
        raise InvalidInput(f"ridge {ridge!r}; expected 'auto', 0 or a positive finite number")
    if ridge == 0 and head in ("discriminant", "averaged", "quadratic"):
        raise InvalidInput(
            f"the {head} head needs a positive ridge: within classes, the constant "
            "direction has no scatter to divide by"
        )


def _rising(progress: Progress | None) -> Progress | None:
    """Progress that never falls: a factorisation that is tried again counts once."""
    if progress is None:
        return None
    reached = 0.0

    def report(done: float) -> None:
        nonlocal reached
        reached = max(reached, done)
        progress(reached)

    return report


def _share(progress: Progress | None, begin: float, end: float) -> Progress | None:
    if progress is None:
        return None
    return lambda done: progress(begin + (end - begin) * done)
