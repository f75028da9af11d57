"""statistics -> weights: one call, whatever the ridge, the head or the machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.basics.progress import Progress, no_progress
from safle.basics.texts import require_type
from safle.errors import InvalidInput, SolveError
from safle.solver.choice import Choice, choose
from safle.solver.heads import Priors, discriminant, multiply_in_order, shift_of
from safle.solver.least_squares import least_squares
from safle.solver.quadratic import (
    average,
    can_square,
    quadratic,
    quadratic_share,
    require_squares,
    sum_of_classes,
)
from safle.solver.reduction import Reduction
from safle.solver.ridge import CRITERIA
from safle.solver.solution import HEADS, Solution
from safle.solver.spectrum import spectrum_of
from safle.solver.temperature import Fit, find_temperature, fit_log_odds
from safle.statistics.value import Sums

log = logging.getLogger(__name__)
Head = Literal["auto", "least-squares", "discriminant", "averaged", "quadratic"]
Criterion = Literal["auto", "gcv", "evidence"]
MOST_CLASSES = 10_000
NOISY_TRIES = 8
"""Ridges that are tried for noisy statistics, each twice the one before."""


class Options(NamedTuple):
    """The options of `solve`."""

    ridge: float | Literal["auto"]
    head: Head
    criterion: Criterion
    progress: Progress


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
    criterion : "gcv"; "evidence"; or "auto": evidence where there are random columns, at most 600
        columns and a residual of the labels, "gcv" elsewhere
    priors : how frequent classes are where the model is used: "uniform", or a number for each
        class; None for the frequencies that were counted. Least squares takes no priors.
    progress : called with the finished share, 0 to 1

    Examples
    --------
    Equivalent to ``scipy.linalg.solve(C + ridge * I, M, assume_a="pos")`` in exact arithmetic:

    >>> from safle import count, declared_range, make_encoder
    >>> encoder = make_encoder(declared_range(0, 1, feature_dim=1), kind="linear")
    >>> total = count(encoder, [[0.0], [0.1], [0.9], [1.0]], ["low", "low", "high", "high"])
    >>> solution = solve(total, ridge=1.0)
    >>> solution.class_names, solution.head
    (('high', 'low'), 'averaged')
    """
    advice = "read(path) of a file, sum_statistics of several"
    require_type("statistics", statistics, Sums, advice=advice)
    _check_options(ridge, head, criterion, priors)
    _check_statistics(statistics)
    shift = None
    if priors is not None:
        # Wrong priors are refused before the long computation.
        shift = shift_of(priors, statistics.class_names, statistics.class_counts)
    report = _never_falling(progress or no_progress)
    solved = _solve(statistics, Options(ridge, head, criterion, report))
    report(1.0)
    log.info("solved: %r", solved)
    # "auto" falls back to least squares, whose scores cannot be shifted.
    if shift is None or solved.head == "least-squares":
        return solved
    return replace(solved, intercept=solved.intercept + (solved.temperature or 1.0) * shift)


def _check_options(ridge: Any, head: str, criterion: str, priors: Any) -> None:
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    if head not in ("auto", *HEADS):
        raise InvalidInput(f"head {head!r}; expected one of auto, {', '.join(HEADS)}")
    if priors is not None and head == "least-squares":
        raise InvalidInput(
            "least-squares scores have no priors: take head 'discriminant' or 'averaged', or leave "
            "priors out"
        )
    if isinstance(ridge, str) and ridge == "auto":
        return
    if not isinstance(ridge, Real) or not 0 <= float(ridge) < np.inf:
        raise InvalidInput(f"ridge {ridge!r}; expected 'auto', 0 or a positive finite number")
    if ridge == 0 and head in ("discriminant", "averaged", "quadratic"):
        raise InvalidInput(
            f"ridge 0 with the {head} head; expected a positive ridge, because the constant has no "
            "scatter within classes: give one, or take head 'least-squares'"
        )


def _check_statistics(statistics: Sums) -> None:
    if not statistics.sample_count:
        raise InvalidInput(
            "the statistics hold no samples; expected at least one: count samples first"
        )
    if len(statistics.class_names) > MOST_CLASSES:
        raise InvalidInput(
            f"{len(statistics.class_names)} classes; at most {MOST_CLASSES} are solved at once: "
            "take out the contributions that brought them, or merge classes before counting"
        )


def _never_falling(progress: Progress) -> Progress:
    """Progress that never falls when a factorisation is tried again."""
    reached = 0.0

    def report(done: float) -> None:
        nonlocal reached
        reached = max(reached, done)
        progress(reached)

    return report


def _part_of(progress: Progress, begin: float, end: float) -> Progress:
    """Progress of a part of the whole."""
    return lambda done: progress(begin + (end - begin) * done)


def _solve(statistics: Sums, options: Options) -> Solution:
    """Solve for a head; "auto" is as much of the averaged one as the statistics allow."""
    if options.head == "quadratic":
        require_squares(statistics)
        return _solve_squares(statistics, options)
    several = len(statistics.class_names) > 1
    averages = options.head in ("auto", "averaged") and options.ridge != 0
    if not (averages and several and can_square(statistics)):
        return _solve_linear(statistics, options)
    share = quadratic_share(statistics)
    linear = _solve_linear(statistics, options) if share < 1 else None
    try:
        if linear is None:
            return replace(_solve_squares(statistics, options), head="averaged")
        squared = _solve_squares(statistics, options._replace(ridge="auto", progress=no_progress))
    except SolveError:
        if options.head != "auto":
            raise
        return linear or _solve_linear(statistics, options)
    return linear if linear.head == "least-squares" else average(linear, squared, share)


def _solve_squares(statistics: Sums, options: Options) -> Solution:
    """The quadratic head, with ridge and temperature of the discriminant of the same columns."""
    linear = _solve_linear(sum_of_classes(statistics), options._replace(head="discriminant"))
    return quadratic(statistics, linear)


def _solve_linear(statistics: Sums, options: Options) -> Solution:
    """Choose a ridge, solve the linear system and put a head of weights on it."""
    tries, begin = 1, 0.0
    if options.ridge == "auto":
        choice = choose(statistics, options.criterion, _part_of(options.progress, 0.0, 0.6))
        tries, begin = NOISY_TRIES if statistics.least_ridge else 1, 0.6
    else:
        choice = Choice(options.ridge)
    reduction = Reduction(statistics)
    solving = _part_of(options.progress, begin, 0.95)
    plain = least_squares(reduction, choice.ridge, solving, tries)

    def degrees_of_freedom() -> float:
        spectrum = choice.spectrum or spectrum_of(reduction)
        return float(spectrum.degrees_of_freedom(np.array([plain.ridge]))[0])

    solved = replace(plain, curve=choice.curve)
    # Noisy sums do not show how the noise changes scores, so they give no temperature.
    freedom = degrees_of_freedom if statistics.gives_temperature else None
    return put_head(options.head, solved, reduction.target, freedom)


def put_head(
    head: str,
    solved: Solution,
    target: NDArray[np.float64],
    degrees_of_freedom: Callable[[], float] | None = None,
) -> Solution:
    """Put a head's weights, intercept and temperature on the least-squares solution ``solved``.

    ``target``, (dim, class_count), is M in real units. Without ``degrees_of_freedom``, which
    computes those of the fit, there is no way to a temperature.
    """
    several = len(solved.class_names) > 1
    if head == "least-squares" or (head == "auto" and not (solved.ridge and several)):
        return solved
    chosen = "averaged" if head == "auto" else head
    weights, counts = solved.weights, solved.class_counts
    one_direction = chosen == "averaged" and len(counts) == 2 and degrees_of_freedom is not None
    try:
        mixing, product, intercept = discriminant(
            weights, target, counts, average=chosen == "averaged" and not one_direction
        )
    except SolveError:
        if head == "auto":
            return solved
        raise
    temperature = None
    if degrees_of_freedom is not None:
        weight_products = multiply_in_order(np.ascontiguousarray(weights.T), weights)
        fit = Fit(product.T, weight_products, counts, solved.ridge, degrees_of_freedom())
        temperature = find_temperature(fit, mixing, intercept)
        if one_direction and temperature is not None:
            mixing, intercept = fit_log_odds(
                fit, mixing / temperature, intercept / temperature, temperature
            )
            temperature = 1.0
    return replace(
        solved,
        head=chosen,
        weights=multiply_in_order(weights, mixing),
        intercept=intercept,
        temperature=temperature,
    )
