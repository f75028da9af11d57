"""statistics -> weights: one call, whatever the ridge, the head or the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from safle._internal.memory import require
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.errors import InvalidInput, SolveError
from safle.solver.digits import ExactSolution, System, solve_exactly
from safle.solver.heads import HEADS, discriminant
from safle.solver.minimum_norm import minimum_norm
from safle.solver.reduction import Reduction
from safle.solver.ridge import CRITERIA, RidgeCurve, ridge_curve
from safle.solver.spectrum import spectrum_of
from safle.solver.tiles import Backend, Cholesky, Progress, ScipyBackend, TiledMatrix
from safle.solver.torch_backend import TorchBackend, installed
from safle.statistics import Statistics

Head = Literal["auto", "least-squares", "discriminant", "averaged"]
Criterion = Literal["gcv", "evidence"]
BackendName = Literal["auto", "scipy", "torch"]
MOST_CLASSES = 10_000
TORCH_WORTHWHILE = 6_000
"""Columns from which factoring takes longer than importing torch."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights, what a model needs beside them, and how they were obtained.

    Attributes
    ----------
    fingerprint, layout : of the encoder that made the statistics
    codes : int64, (seen,), columns of the codes that have weights
    class_names : ascending
    weights : float64, (seen + dense_dim, class_count), in real units
    intercept : float64, (class_count,)
    head : "least-squares", "discriminant" or "averaged"
    ridge : the strength used (its nearest value of 20 significant bits)
    class_counts : int64, (class_count,); empty where weights come from a model file
    residual : relative residual of the linear system
    rank : numerical rank, where ridge is 0
    curve : the ridge criterion, where ridge was "auto"
    precision : "float32", "float64" or "spectral"
    backend : who factored

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count, solve
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> solution = solve(count(encoder, [[0.1], [0.2], [0.8], [0.9]], ["low"] * 2 + ["high"] * 2))
    >>> solution.class_names, solution.weights.shape
    (('high', 'low'), (2, 2))
    """

    fingerprint: str
    layout: Layout
    codes: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    weights: NDArray[np.float64]
    intercept: NDArray[np.float64]
    head: str
    ridge: float
    class_counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    residual: float = np.nan
    rank: int | None = None
    curve: RidgeCurve | None = None
    precision: str = ""
    backend: str = ""

    @property
    def sample_count(self) -> int:
        """How many samples the weights come from."""
        return int(self.class_counts.sum())


@dataclass(frozen=True)
class _LeastSquares:
    """Real weights, (dim, class_count), of the linear system alone."""

    weights: NDArray[np.float64]
    ridge: float
    residual: float
    rank: int | None = None
    precision: str = "spectral"
    backend: str = "scipy"


@dataclass(frozen=True)
class _Headed:
    """What the head made of them."""

    head: str
    weights: NDArray[np.float64]
    intercept: NDArray[np.float64]


def solve(
    statistics: Statistics,
    *,
    ridge: float | Literal["auto"] = "auto",
    head: Head = "auto",
    criterion: Criterion = "gcv",
    backend: BackendName = "auto",
    progress: Progress | None = None,
) -> Solution:
    """Weights from statistics.

    Parameters
    ----------
    ridge : a positive number; 0 for the minimum-norm solution; "auto" chooses by
        ``criterion`` from the statistics alone
    head : "least-squares" (the paper's), "discriminant" (LDA), "averaged" (of both), or
        "auto": averaged where there are two classes, and scatter within them to divide by
    criterion : "gcv" or "evidence"
    backend : who factors; "auto" takes torch for large systems where it is installed
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
    if head not in ("auto", *HEADS):
        raise InvalidInput(f"head {head!r}; expected one of auto, {', '.join(HEADS)}")
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion {criterion!r}; expected one of {', '.join(CRITERIA)}")
    _check_ridge(ridge, head)
    if not statistics.sample_count:
        raise InvalidInput("the statistics hold no samples; nothing can be solved")
    if len(statistics.class_names) > MOST_CLASSES:
        raise InvalidInput(
            f"{len(statistics.class_names)} classes; at most {MOST_CLASSES} are solved at once: "
            "take out the contributions that brought them, or merge classes before counting"
        )
    reduction = Reduction(statistics)
    progress = _rising(progress)
    curve = None
    if ridge == "auto":
        # Before the sweep, not after it: it takes about as long as the factorisation.
        _require(statistics, np.float32)
        spectrum = spectrum_of(statistics, reduction, _share(progress, 0.0, 0.6))
        curve = ridge_curve(
            spectrum,
            sample_count=statistics.sample_count,
            class_count=len(statistics.class_names),
            criterion=criterion,
        )
        ridge = curve.best
    begun = 0.6 if curve is not None else 0.0
    plain = _weights(statistics, reduction, ridge, backend, _share(progress, begun, 0.95))
    headed = _put_head(head, statistics, reduction, plain)
    if progress is not None:
        progress(1.0)
    return Solution(
        fingerprint=statistics.fingerprint,
        layout=statistics.layout,
        codes=statistics.codes,
        class_names=statistics.class_names,
        weights=headed.weights,
        intercept=headed.intercept,
        head=headed.head,
        ridge=plain.ridge,
        class_counts=statistics.class_counts,
        residual=plain.residual,
        rank=plain.rank,
        curve=curve,
        precision=plain.precision,
        backend=plain.backend,
    )


def _put_head(
    head: Head, statistics: Statistics, reduction: Reduction, plain: _LeastSquares
) -> _Headed:
    """Weights and intercept of the head, from those of least squares."""
    classes = len(statistics.class_names)
    without = _Headed("least-squares", plain.weights, np.zeros(classes))
    if head == "least-squares" or (head == "auto" and not (plain.ridge and classes > 1)):
        return without
    chosen = "averaged" if head == "auto" else head
    target, counts = statistics.cross * reduction.real[:, None], statistics.class_counts
    try:
        weights, intercept = discriminant(
            plain.weights, target, counts, average=chosen == "averaged"
        )
    except SolveError:
        if head == "auto":
            return without
        raise
    return _Headed(chosen, weights, intercept)


def _check_ridge(ridge: Any, head: str) -> None:
    if isinstance(ridge, str) and ridge == "auto":
        return
    if not isinstance(ridge, Real) or not 0 <= float(ridge) < np.inf:
        raise InvalidInput(f"ridge {ridge!r}; expected 'auto', 0 or a positive finite number")
    if ridge == 0 and head in ("discriminant", "averaged"):
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
    if name == "torch" or (name == "auto" and size >= TORCH_WORTHWHILE and installed()):
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
