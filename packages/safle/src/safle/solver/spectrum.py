"""Spectral sums of the gram: what a ridge of any strength would do, from one sweep.

With the gram ``C = sum_i s_i v_i v_i'`` and the target ``M``, the cross (both in real units), every
criterion for the ridge needs only ``sum_i f(s_i)`` and ``sum_i f(s_i) |v_i' M|^2``. There are three
ways to these sums:

- A small gram is decomposed.
- A gram of n samples, fewer than its columns, has a root ``C = L L'`` (`find_root`). The matrix
  ``K = L'L``, at most n by n, has all eigenvalues of C that are not zero, and no others.
- If C or K is large, it is probed: block Lanczos starts from the target and random signs together,
  and gives Gauss quadratures of the sums (for the signs, stochastic estimates of the trace). All
  columns share one Krylov space, so a few steps are enough.

For these functions a Gauss quadrature errs to one side, and a Gauss-Radau quadrature with a node
fixed at zero errs to the other (Golub and Meurant, 2010). We keep both, with the estimate of each
probe, so that the error is known. Sums are float64: the choice of the ridge rests on differences
that float32 would blur.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr, solve_triangular
from threadpoolctl import threadpool_limits

from safle.basics.progress import Progress, no_progress
from safle.solver.reduction import Reduction, find_root
from safle.statistics import triangle

DECOMPOSE_UP_TO = 1_500
LANCZOS_STEPS = 20
PROBES = 6
MOST_TARGETS = 16
"""More classes than this are mixed into this many random signed sums."""
ROOT_SHARE = 0.5
"""With more samples than this share of the columns, the root takes longer than solving."""
ROUNDING = 1e-12
"""An eigenvalue below this share of the largest is rounding."""
DEVIATIONS = 2.0
"""The mean over random probes may err by this many of its standard deviations."""
BREAKDOWN = 1e-10
"""A new direction shorter than this share of the largest entry is rounding."""

Matrix = NDArray[np.float64]
Multiply = Callable[[Matrix], Matrix]
Function = Callable[[Matrix], Matrix]


@dataclass(frozen=True)
class Measures:
    """Two discrete measures on the eigenvalues; exact ones have a single column of trace masses."""

    nodes: Matrix
    """(nodes,): eigenvalues, or the nodes of a quadrature."""
    trace_masses: Matrix
    """(nodes, probes): what each probe adds to a trace at a node."""
    target_masses: Matrix
    """(nodes,): ``|v_i' M|^2``."""

    def traces(self, function: Function) -> Matrix:
        """``sum_i f(s_i)`` by every probe, (probes, ridges)."""
        return self.trace_masses.T @ function(self.nodes[:, None])

    def target(self, function: Function) -> Matrix:
        """``sum_i f(s_i) |v_i' M|^2``, (ridges,)."""
        return self.target_masses @ function(self.nodes[:, None])


@dataclass(frozen=True)
class Spectrum:
    """The spectrum of a gram: exact, or by two quadratures that err to opposite sides.

    Functions take eigenvalues, (nodes, 1), and return a value for each ridge, (nodes, ridges).
    """

    sides: tuple[Measures, ...]
    trace: float
    """Trace of the gram itself, not an estimate: the same bits on any machine."""
    rank: int
    """Largest rank that the gram can have."""

    def degrees_of_freedom(self, ridges: Matrix) -> Matrix:
        """``sum_i s_i / (s_i + ridge)`` for every ridge, (ridges,)."""
        estimates = [side.traces(lambda s: s / (s + ridges)).mean(axis=0) for side in self.sides]
        return np.minimum(np.mean(estimates, axis=0), self.rank)

    def bound_trace(self, function: Function) -> tuple[Matrix, Matrix]:
        """The least and the most that ``sum_i f(s_i)`` can be, if probes err by `DEVIATIONS`."""
        low, high = [], []
        for side in self.sides:
            estimates = side.traces(function)
            probes = len(estimates)
            error = 0.0 if probes == 1 else estimates.std(axis=0, ddof=1) / np.sqrt(probes)
            low.append(estimates.mean(axis=0) - DEVIATIONS * error)
            high.append(estimates.mean(axis=0) + DEVIATIONS * error)
        return np.min(low, axis=0), np.max(high, axis=0)

    def bound_target(self, function: Function) -> tuple[Matrix, Matrix]:
        """The least and the most that ``sum_i f(s_i) |v_i' M|^2`` can be."""
        estimates = [side.target(function) for side in self.sides]
        return np.min(estimates, axis=0), np.max(estimates, axis=0)


def spectrum_of(
    reduction: Reduction, progress: Progress = no_progress, *, effort: int = 1
) -> Spectrum:
    """The spectrum of the gram in real units; ``effort`` multiplies Lanczos steps and probes."""
    sums = reduction.sums
    size = reduction.reduced_dim
    # Noise has full rank, whatever the number of samples.
    rank = size if sums.least_ridge else min(size, sums.sample_count)
    if rank < size and rank <= max(DECOMPOSE_UP_TO, ROOT_SHARE * size):
        sides = _measure_root(reduction, effort, progress)
    elif size <= DECOMPOSE_UP_TO:
        sides = (decompose(reduction.gram(), reduction.forward(reduction.target), rank),)
    else:
        sides = _measure_gram(reduction, effort, progress)
    return Spectrum(sides, reduction.trace, rank)


def _measure_root(reduction: Reduction, effort: int, progress: Progress) -> tuple[Measures, ...]:
    """The measures of C by ``K = L'L``: its target is ``c`` with ``L c = M``."""
    root, pivots = find_root(reduction)
    root_target = solve_triangular(root[pivots], reduction.target[pivots], lower=True)
    rank = root.shape[1]
    if rank <= DECOMPOSE_UP_TO:
        sides: tuple[Measures, ...] = (decompose(root.T @ root, root_target, rank),)
    else:
        signs = _signs(rank, effort)
        sides = _probe(lambda x: root.T @ (root @ x), root_target, signs, effort, progress)
    # An eigenvector u_i of K has |v_i' M|^2 = s_i |u_i' c|^2.
    return tuple(
        Measures(side.nodes, side.trace_masses, side.nodes * side.target_masses) for side in sides
    )


def _measure_gram(reduction: Reduction, effort: int, progress: Progress) -> tuple[Measures, ...]:
    dim, column_steps = reduction.sums.dim, reduction.steps[:, None]
    # float32 halves the bytes to read, and rounds alike on any machine.
    gram = reduction.sums.gram.packed.astype(np.float32)
    # Probes lie in the range of the gram: its null space adds nothing to any sum.
    signs = reduction.backward(_signs(reduction.reduced_dim, effort))

    def multiply(columns: Matrix) -> Matrix:
        return triangle.multiply(gram, dim, columns * column_steps) * column_steps

    # BLAS multiplies only thin blocks here. Its threads, which wait for more work, would keep
    # cores from the passes over the gram, which would then take twice as long.
    with threadpool_limits(1, "blas"):
        return _probe(multiply, reduction.target, signs, effort, progress)


def _probe(
    multiply: Multiply, target: Matrix, signs: Matrix, effort: int, progress: Progress
) -> tuple[Measures, ...]:
    """The measures of a matrix by its products with the target and random signs."""
    mixed = _mix(target)
    start = np.concatenate([mixed, signs], axis=1)
    return _lanczos(multiply, start, LANCZOS_STEPS * effort, progress).measures(mixed.shape[1])


def _mix(target: Matrix) -> Matrix:
    """Many columns as few random signed sums of them, with the same squares on average."""
    if target.shape[1] <= MOST_TARGETS:
        return target
    generator = np.random.Generator(np.random.PCG64(1))
    signs = generator.choice([-1.0, 1.0], (target.shape[1], MOST_TARGETS))
    return target @ signs / np.sqrt(MOST_TARGETS)


def _signs(size: int, effort: int) -> Matrix:
    return np.random.Generator(np.random.PCG64(0)).choice([-1.0, 1.0], (size, PROBES * effort))


def decompose(gram: NDArray[np.floating[Any]], target: Matrix, rank: int) -> Measures:
    """The exact measures of a matrix of rank up to ``rank``, given by its lower triangle."""
    values, vectors = eigh(gram, lower=True)
    nodes = np.where(values > ROUNDING * values[-1], values, 0.0)
    nodes[: max(0, len(nodes) - rank)] = 0.0
    parts = vectors.T @ target
    return Measures(nodes, np.ones((len(nodes), 1)), (parts**2).sum(axis=1))


@dataclass(frozen=True)
class _Band:
    """Lanczos' block tridiagonal matrix: diagonal blocks, and the blocks below them."""

    diagonal: list[Matrix]
    below: list[Matrix]
    start: Matrix
    """(width of the first block, columns): the start columns in the first block's basis."""
    ended: bool
    """Whether there is no direction beyond the last block."""

    def measures(self, targets: int) -> tuple[Measures, ...]:
        """By Gauss and Radau: the first ``targets`` columns are the target, the others probes."""
        blocks = [self.diagonal]
        if not self.ended and len(self.diagonal) > 1:
            blocks.append([*self.diagonal[:-1], self._fixed_at_zero()])
        return tuple(self._measures(diagonal, targets) for diagonal in blocks)

    def _measures(self, diagonal: list[Matrix], targets: int) -> Measures:
        nodes, vectors = eigh(_assemble(diagonal, self.below))
        masses = (vectors[: len(self.start)].T @ self.start) ** 2
        return Measures(
            np.maximum(nodes, 0.0), masses[:, targets:], masses[:, :targets].sum(axis=1)
        )

    def _fixed_at_zero(self) -> Matrix:
        """The last diagonal block with which the whole matrix has the eigenvalue zero."""
        link, size = self.below[-1], self.below[-1].shape[1]
        values, vectors = eigh(_assemble(self.diagonal[:-1], self.below[:-1]))
        # The last line divides by the eigenvalues, of which some may be rounding.
        values = np.maximum(values, ROUNDING * values[-1])
        ends = link @ vectors[-size:]
        return (ends / values) @ ends.T


def _lanczos(multiply: Multiply, start: Matrix, steps: int, progress: Progress) -> _Band:
    """The band of a symmetric matrix; ``multiply`` gives its products with columns."""
    norms = np.linalg.norm(start, axis=0)
    block, in_block = _orthonormal(start / np.where(norms > 0, norms, 1.0), BREAKDOWN)
    # In column order and allocated beforehand, the basis grows without being copied.
    storage = np.empty((len(start), steps * start.shape[1]), order="F")
    basis_size = block.shape[1]
    storage[:, :basis_size] = block
    diagonal: list[Matrix] = []
    below: list[Matrix] = []
    ended = False
    for step in range(steps):
        product = multiply(block)
        inner = block.T @ product
        diagonal.append((inner + inner.T) / 2)
        basis = storage[:, :basis_size]
        for _ in range(2):
            # Twice is enough to keep the basis orthogonal to rounding.
            product -= basis @ (basis.T @ product)
        progress((step + 1) / steps)
        largest = max(float(np.abs(square).max(initial=0.0)) for square in diagonal)
        block, link = _orthonormal(product, BREAKDOWN * largest)
        ended = not len(link)
        if ended or step == steps - 1:
            break
        storage[:, basis_size : basis_size + len(link)] = block
        basis_size += len(link)
        below.append(link)
    return _Band(diagonal, below, in_block * norms, ended)


def _orthonormal(columns: Matrix, least: float) -> tuple[Matrix, Matrix]:
    """``columns = Q R``, (dim, rank) and (rank, width); pivots up to ``least`` count as zero."""
    # Pivoting the tall factor instead of the small one would take 30 times as long.
    tall, small = qr(columns, mode="economic")
    q, r, order = qr(small, pivoting=True)
    rank = int((np.abs(np.diagonal(r)) > least).sum())
    unpivoted = np.empty((rank, columns.shape[1]))
    unpivoted[:, order] = r[:rank]
    return tall @ q[:, :rank], unpivoted


def _assemble(diagonal: list[Matrix], below: list[Matrix]) -> Matrix:
    """The lower triangle of the block tridiagonal matrix, from its blocks."""
    starts = np.cumsum([0, *(len(block) for block in diagonal)])
    band = np.zeros((starts[-1], starts[-1]))
    for k, block in enumerate(diagonal):
        band[starts[k] : starts[k + 1], starts[k] : starts[k + 1]] = block
    for k, link in enumerate(below):
        band[starts[k + 1] : starts[k + 2], starts[k] : starts[k + 1]] = link
    return band
