"""Solving: statistics -> weights at D=8192, against SciPy's float64 Cholesky.

``auto_over_given`` is the time with the ridge chosen over that with it given, for the
default encoder's statistics.

Timed: `safle.solve` from packed integers to float64 weights, forming its matrix
included; for SciPy ``cho_solve(cho_factor(A), M)`` on a ready float64 matrix. ``tuned``
is SciPy at its best, with no bar: in place, column order, no check for infinities. Peak
memory: see `benchmarks.memory`, after a small solve that loads the libraries.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from benchmarks import data
from benchmarks.memory import Work, load_solver, peak_of
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from benchmarks.timing import Times, race
from safle import Solution, Statistics, count, make_encoder, public_sample, solve

RIDGE = 1000.0
REPEATS = 4
CHOICE_REPEATS = 2
BAR_SPEEDUP, BAR_AUTO, BAR_RESIDUAL, BAR_PEAK = 1.8, 1.6, 1e-10, 14.0
SAME_WITHIN = 1e-8
"""Relative difference of the two weights: SciPy's own rounding is about 1e-11."""

Matrix = NDArray[np.float64]


def run(settings: Settings) -> Outcome:
    """Race the two solvers, then solve once more in a process of its own."""
    dataset = data.load(settings)
    statistics = count(data.embedding(dataset.train), dataset.train, dataset.train_labels)
    matrix, target = _dense(statistics)
    scratch = np.empty_like(matrix, order="F")
    times = race(
        ("safle", partial(solve, statistics, ridge=RIDGE, head="least-squares")),
        {"scipy": partial(plain, matrix, target), "tuned": partial(tuned, scratch, target)},
        same=_same,
        repeats=REPEATS,
        # What is factored in place needs a fresh copy, off the clock, for every run.
        before=partial(np.copyto, scratch, matrix.T),
    )
    solution = solve(statistics, ridge=RIDGE, head="least-squares")
    residual = max(solution.residual, _residual(matrix, target, solution.weights))
    del matrix, scratch, statistics
    note("solving: the choice of the ridge ...")
    choosing = _race_choice(dataset, units=200 if settings.quick else None)
    auto_over_given = choosing.ratio("auto", "given")
    note("solving: peak memory ...")
    peak = peak_of(prepare, settings, quick=settings.quick)
    speedup = times.ratio("scipy", "safle")
    peak_over_d2 = peak.size / target.shape[0] ** 2
    return Outcome(
        figures={
            "speedup": speedup,
            "speedup_over_tuned": times.ratio("tuned", "safle"),
            "residual": residual,
            "peak_bytes_over_d2": peak_over_d2,
            "auto_over_given": auto_over_given,
            "dim": target.shape[0],
            "precision": solution.precision,
            "seconds": times.to_json() | choosing.to_json(),
            "spread": times.spread() | choosing.spread(),
        },
        data=dataset.source,
        compared=f"weights, relative difference at most {SAME_WITHIN:g}",
        bars=[
            Bar("solving: times faster than SciPy float64", speedup, BAR_SPEEDUP),
            Bar("solving: auto over given", auto_over_given, BAR_AUTO, at_most=True),
            Bar("solving: relative residual", residual, BAR_RESIDUAL, at_most=True),
            Bar("solving: peak bytes over D^2", peak_over_d2, BAR_PEAK, at_most=True),
        ],
    )


def _race_choice(dataset: data.Dataset, units: int | None) -> Times:
    """Solving with the ridge given and with "auto", on the default encoder's statistics."""
    sample = public_sample(dataset.train[: data.PUBLIC_SAMPLES])
    encoder = make_encoder(sample, **({} if units is None else {"units": units}))
    statistics = count(encoder, dataset.train, dataset.train_labels)
    ridge = solve(statistics).ridge
    return race(
        ("given", partial(solve, statistics, ridge=ridge)),
        {"auto": partial(solve, statistics)},
        same=_same_choice,
        repeats=CHOICE_REPEATS,
    )


def prepare(settings: Settings) -> Work:
    """Statistics in memory and libraries loaded; what is left to do is the solve."""
    dataset = data.load(settings)
    encoder = data.embedding(dataset.train)
    load_solver()
    statistics = count(encoder, dataset.train, dataset.train_labels)
    return partial(solve, statistics, ridge=RIDGE)


def _dense(statistics: Statistics) -> tuple[Matrix, Matrix]:
    """``C + ridge`` and M, float64."""
    matrix = statistics.gram_square().astype(np.float64)
    matrix[np.diag_indices(len(matrix))] += RIDGE
    return matrix, statistics.cross.astype(np.float64)


def plain(matrix: Matrix, target: Matrix) -> Matrix:
    """What a user writes."""
    weights: Matrix = cho_solve(cho_factor(matrix), target)
    return weights


def tuned(matrix: Matrix, target: Matrix) -> Matrix:
    """The same without copies; ``matrix``, in column order, is overwritten."""
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    weights: Matrix = cho_solve(factor, target, check_finite=False)
    return weights


def _residual(matrix: Matrix, target: Matrix, weights: Matrix) -> float:
    """Computed apart from what the solver says of itself."""
    return float(np.linalg.norm(matrix @ weights - target) / np.linalg.norm(target))


def _same(found: Any, expected: Solution) -> None:
    difference = np.linalg.norm(found - expected.weights) / np.linalg.norm(found)
    if not difference <= SAME_WITHIN:
        raise Disagreement(f"solving: the weights differ by {difference:g}")


def _same_choice(found: Any, expected: Solution) -> None:
    if not np.array_equal(found.weights, expected.weights):
        raise Disagreement("solving: the ridge chosen gives other weights than the same one given")
