"""statistics -> weights: one call, for every ridge, head and machine.

A pipe: `choose_ridge` reduces the sums and chooses a ridge, `solve_exactly` gives the weights of
least squares, and a head of `HEADS` makes scores of them.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from numbers import Real
from typing import Any, Literal

import numpy as np

from safle._native.cores import blas_for
from safle.basics.progress import Progress, no_progress
from safle.basics.texts import require_type
from safle.errors import InvalidInput, SolveError
from safle.solver.choice import choose_ridge
from safle.solver.heads import HEADS, BaseOf, FittedHead, Priors, averaged, least_squares, shift_of
from safle.solver.heads.quadratic import can_square
from safle.solver.least_squares import LeastSquares, solve_exactly
from safle.solver.ridge import CRITERIA
from safle.solver.solution import Solution
from safle.statistics.statistics import Sums

log = logging.getLogger(__name__)
Criterion = Literal["auto", "gcv", "evidence"]
MAX_CLASSES = 10_000


@blas_for()
def solve(
    sums: Sums,
    *,
    ridge: float | Literal["auto"] = "auto",
    head: str = "auto",
    criterion: Criterion = "auto",
    priors: Priors | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Weights from statistics.

    Parameters
    ----------
    sums : `Statistics`, or noisy ones
    ridge : a positive number for all columns; 0 for the minimum-norm solution; "auto" chooses it by
        ``criterion`` from the sums alone, and for noisy sums at least as large as their noise. The
        quadratic head adds ``ridge / sample_count`` to the diagonal of each covariance.
    head : a name of `safle.solver.HEADS`, or "auto": averaged if there are two classes or more,
        with scatter within them, else least-squares
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
    require_type("statistics", sums, Sums, advice="read(path) of a file, sum_statistics of several")
    _check_options(ridge, head, criterion, priors)
    _check_sums(sums)
    # Wrong priors are refused before the long computation.
    shift = None if priors is None else shift_of(priors, sums.class_names, sums.class_counts)
    report = _never_falling(progress or no_progress)
    bases: dict[tuple[int, float | str], LeastSquares] = {}

    def base_of(part: Sums = sums, strength: float | Literal["auto"] = ridge) -> LeastSquares:
        """B of the sums, or of a part of them: each is solved once."""
        # What is kept holds its sums, so no other value can get their id.
        key = (id(part), strength)
        if key not in bases:
            begin = 0.6 if strength == "auto" else 0.0
            choice = choose_ridge(part, strength, criterion, _part_of(report, 0.0, begin))
            bases[key] = solve_exactly(choice, _part_of(report, begin, 0.95))
        return bases[key]

    fitted = _fit_auto(sums, base_of, ridge) if head == "auto" else HEADS[head].fit(sums, base_of)
    if shift is not None and HEADS[fitted.name].takes_priors:
        fitted = fitted.moved(shift)
    # Curve and residual are those of what the head asked for first.
    base = next(iter(bases.values())) if bases else base_of()
    solution = Solution.of(sums, base, fitted)
    report(1.0)
    log.info("solved: %r", solution)
    return solution


def _fit_auto(sums: Sums, base_of: BaseOf, ridge: float | str) -> FittedHead:
    """As much of the averaged head as the sums allow."""
    if len(sums.class_names) < 2 or ridge == 0:
        return least_squares.fit(sums, base_of)
    if can_square(sums):
        with suppress(SolveError):
            return averaged.fit(sums, base_of)
    # Sums that cannot be solved are refused here, not by one head after the other.
    base_of()
    with suppress(SolveError):
        return averaged.fit_linear(sums, base_of)
    return least_squares.fit(sums, base_of)


def _check_options(ridge: Any, head: str, criterion: str, priors: Any) -> None:
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    if head not in ("auto", *HEADS):
        raise InvalidInput(f"head {head!r}; expected one of auto, {', '.join(HEADS)}")
    chosen = HEADS.get(head)
    if priors is not None and chosen and not chosen.takes_priors:
        others = [repr(other.name) for other in HEADS.values() if other.takes_priors]
        raise InvalidInput(
            f"{head} scores have no priors: take head {', '.join(others)}, or leave priors out"
        )
    if isinstance(ridge, str) and ridge == "auto":
        return
    if not isinstance(ridge, Real) or not 0 <= float(ridge) < np.inf:
        raise InvalidInput(f"ridge {ridge!r}; expected 'auto', 0 or a positive finite number")
    if ridge == 0 and chosen and chosen.needs_positive_ridge:
        others = [repr(other.name) for other in HEADS.values() if not other.needs_positive_ridge]
        raise InvalidInput(
            f"ridge 0 with the {head} head; expected a positive ridge, because the constant has no "
            f"scatter within classes: give one, or take head {', '.join(others)}"
        )


def _check_sums(sums: Sums) -> None:
    if not sums.sample_count:
        raise InvalidInput(
            "the statistics hold no samples; expected at least one: count samples first"
        )
    if len(sums.class_names) > MAX_CLASSES:
        raise InvalidInput(
            f"{len(sums.class_names)} classes; at most {MAX_CLASSES} are solved at once: "
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
