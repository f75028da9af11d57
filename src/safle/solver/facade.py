"""statistics -> weights: one call, whatever the ridge, the head or the machine."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from safle._internal.arguments import require_type
from safle._internal.memory import require
from safle.errors import InvalidInput, SolveError
from safle.solver.digits import ExactSolution, System, solve_exactly
from safle.solver.heads import HEADS, put_head
from safle.solver.minimum_norm import minimum_norm
from safle.solver.noise import noise_ridge, privacy_of
from safle.solver.priors import Priors, shift_of
from safle.solver.quadratic import coolness, quadratic
from safle.solver.reduction import Reduction
from safle.solver.ridge import CRITERIA, degrees_of_freedom, ridge_curve
from safle.solver.solution import Solution
from safle.solver.spectrum import spectrum_of
from safle.solver.tiles import Backend, Cholesky, Progress, ScipyBackend, TiledMatrix
from safle.solver.torch_backend import TorchBackend, installed, multiplies_faster
from safle.statistics import Statistics

log = logging.getLogger(__name__)
Head = Literal["auto", "least-squares", "discriminant", "averaged", "quadratic"]
Criterion = Literal["gcv", "evidence"]
BackendName = Literal["auto", "scipy", "torch"]
MOST_CLASSES = 10_000
NOISY_TRIES = 8
"""Ridges that are tried for noisy statistics, each twice the one before."""
TORCH_WORTHWHILE = 6_000
"""Columns from which factoring takes longer than importing torch."""


@dataclass(frozen=True)
class _LeastSquares:
    """Real weights, (dim, class_count), of the linear system alone."""

    weights: NDArray[np.float64]
    ridge: float
    residual: float
    rank: int | None = None
    precision: str = "spectral"
    backend: str = "scipy"


def solve(
    statistics: Statistics,
    *,
    ridge: float | Literal["auto"] = "auto",
    head: Head = "auto",
    criterion: Criterion = "gcv",
    backend: BackendName = "auto",
    priors: Priors | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Weights from statistics.

    Parameters
    ----------
    ridge : a positive number; 0 for the minimum-norm solution; "auto" chooses by
        ``criterion`` from the statistics alone, and of noisy ones large enough for their
        noise. The quadratic head's is added to each class's covariance, times the number of
        samples.
    head : "least-squares" (the paper's), "discriminant" (LDA), "quadratic" (a covariance for
        each class, of statistics counted by class), "averaged" (of those there can be), or
        "auto": averaged where there are two classes, and scatter within them to divide by
    criterion : "gcv" or "evidence"
    backend : who factors; "auto" takes torch for large systems where it is installed
    priors : how frequent classes are where the model is used: "uniform", or a number for each
        class; as they were counted if None. Not for least squares, whose scores have none.
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
    require_type("statistics", statistics, Statistics, advice=advice)
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    _check_ridge(ridge, head)
    _check_statistics(statistics)
    shift = _shift(priors, head, statistics)
    if head == "quadratic":
        own = None if ridge == "auto" else float(ridge)
        return _with_priors(_solve_quadratic(statistics, own, progress), shift)
    reduction = Reduction(statistics)
    progress = _rising(progress)
    curve, least, spectrum = None, 0.0, None
    if ridge == "auto":
        # Before the sweep, not after it: it takes about as long as the factorisation.
        _require(statistics, np.float32)
        spectrum = spectrum_of(statistics, reduction, _share(progress, 0.0, 0.6))
        least = noise_ridge(statistics)
        # Where noise leaves nothing of the gram, there is nothing but its ridge to choose.
        if not least or spectrum.trace > 0:
            curve = ridge_curve(
                spectrum,
                sample_count=statistics.sample_count,
                class_count=len(statistics.class_names),
                criterion=criterion,
            )
        ridge = least if curve is None else float(max(curve.best, least))
    begun = 0.6 if curve is not None else 0.0
    tries = NOISY_TRIES if least else 1
    plain = _weights(statistics, reduction, ridge, backend, _share(progress, begun, 0.95), tries)

    def freedom() -> float:
        known = spectrum_of(statistics, reduction) if spectrum is None else spectrum
        return degrees_of_freedom(known, plain.ridge)

    # What noise does to scores, sums do not tell.
    told = None if least or privacy_of(statistics) else freedom
    headed = put_head(head, statistics, plain.weights, plain.ridge, reduction.real, told)
    if progress is not None:
        progress(1.0)
    solution = _solution(
        statistics,
        **vars(headed),
        ridge=plain.ridge,
        residual=plain.residual,
        rank=plain.rank,
        curve=curve,
        precision=plain.precision,
        backend=plain.backend,
    )
    return _with_priors(solution, shift)


def _check_statistics(statistics: Statistics) -> None:
    if not statistics.sample_count:
        raise InvalidInput("the statistics hold no samples; nothing can be solved")
    if len(statistics.class_names) > MOST_CLASSES:
        raise InvalidInput(
            f"{len(statistics.class_names)} classes; at most {MOST_CLASSES} are solved at once: "
            "take out the contributions that brought them, or merge classes before counting"
        )


def _shift(priors: Priors | None, head: str, statistics: Statistics) -> NDArray[np.float64] | None:
    """What priors add to log posteriors, (class_count,); None as they were counted."""
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
    # Where "auto" is least squares there is one class, or no ridge: nothing to shift.
    if shift is None or solution.head == "least-squares":
        return solution
    moved = solution.intercept + (solution.temperature or 1.0) * shift
    return replace(solution, intercept=moved)


def _solution(statistics: Statistics, **solved: Any) -> Solution:
    made = Solution(
        fingerprint=statistics.fingerprint,
        layout=statistics.layout,
        codes=statistics.codes,
        class_names=statistics.class_names,
        class_counts=statistics.class_counts,
        privacy=privacy_of(statistics),
        **solved,
    )
    log.info("solved: %r", made)
    return made


def _solve_quadratic(
    statistics: Statistics, ridge: float | None, progress: Progress | None
) -> Solution:
    squared, cool = quadratic(statistics, ridge), coolness(statistics)
    if progress is not None:
        progress(1.0)
    return _solution(
        statistics,
        head="quadratic",
        weights=squared.weights * cool,
        intercept=squared.intercept * cool,
        quadratic=replace(squared.squares, worth=cool),
        ridge=squared.ridge,
        residual=0.0,
        precision="float64",
        backend="safle",
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


def _weights(
    statistics: Statistics,
    reduction: Reduction,
    ridge: float,
    backend: BackendName,
    progress: Progress | None,
    tries: int = 1,
) -> _LeastSquares:
    if ridge == 0:
        weights, rank, residual = minimum_norm(statistics, reduction)
        return _LeastSquares(weights, 0.0, residual, rank)
    system = System(statistics, ridge, np.rint(1 / reduction.real).astype(np.int64))
    chosen = _backend(backend, reduction.reduced_dim)
    precision = "float32"
    try:
        solution = _factored(system, reduction, chosen, np.float32, progress)
    except SolveError:
        precision = "float64"
        try:
            solution = _factored(system, reduction, chosen, np.float64, progress)
        except SolveError as error:
            if tries > 1:
                # Noise this far out is rare, and a larger ridge covers any.
                return _weights(statistics, reduction, 2 * ridge, backend, progress, tries - 1)
            raise SolveError(
                f"{error}: the statistics are not those of real samples, or the ridge "
                f"{system.ridge.value:g} is far too small beside them; `safle store verify` names "
                "an inconsistent contribution, which can be removed"
            ) from error
    return _LeastSquares(
        solution.weights,
        system.ridge.value,
        solution.residual,
        precision=precision,
        backend=chosen.name,
    )


def _factored(
    system: System,
    reduction: Reduction,
    backend: Backend,
    dtype: Any,
    progress: Progress | None,
) -> ExactSolution:
    size = reduction.reduced_dim
    _require(system.statistics, dtype)
    matrix = TiledMatrix(size, lambda rows, columns: reduction.tile(rows, columns, dtype))
    ridge = system.ridge.value
    matrix.add_to_diagonal(ridge)
    factor = Cholesky(matrix, backend, progress)

    def approximate(right: NDArray[np.float64]) -> NDArray[np.float64]:
        # In code units: inverse(C + ridge S^2) = S^-1 inverse(S^-1 C S^-1 + ridge) S^-1,
        # and outside the range of Q the inner matrix is just the ridge.
        real = right * reduction.real[:, None]
        inside = reduction.forward(real)
        outside = (real - reduction.backward(inside)) / ridge
        solved = reduction.backward(factor.solve(inside)) + outside
        result: NDArray[np.float64] = solved * reduction.real[:, None]
        return result

    return solve_exactly(system, approximate)


def _require(statistics: Statistics, dtype: Any) -> None:
    size, classes = statistics.dim, len(statistics.class_names)
    require(
        solve_bytes(size, classes, np.dtype(dtype).itemsize),
        purpose=f"factoring {size} columns in {np.dtype(dtype).name} for {classes} classes",
        advice="use a smaller encoder, or solve on a machine with more memory",
    )


def solve_bytes(size: int, classes: int = 1, itemsize: int = 4) -> int:
    """Memory that solving takes: half a square, its tiles' inverses, a dozen of weights."""
    half = itemsize * size * (size + 1) // 2
    return half + 4 * itemsize * size * 1024 + 12 * 8 * size * classes


def _backend(name: BackendName, size: int) -> Backend:
    worthwhile = size >= TORCH_WORTHWHILE and installed()
    if name == "torch" or (name == "auto" and worthwhile and multiplies_faster()):
        return TorchBackend()
    if name not in ("auto", "scipy"):
        raise InvalidInput(f"backend {name!r}; expected auto, scipy or torch")
    return ScipyBackend()


def _rising(progress: Progress | None) -> Progress | None:
    """Never back: a factorisation that is tried again has been counted once."""
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
