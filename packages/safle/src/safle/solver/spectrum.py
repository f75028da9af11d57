"""Spectral sums of the gram: what a ridge of any strength would do, from one sweep.

With C = sum_i s_i v_i v_i' (real units), every criterion for the ridge needs only
``sum_i f(s_i)`` and ``sum_i f(s_i) |v_i' M|^2``. Small grams are decomposed. Large ones
are probed: block Lanczos from the columns of M and random signs at once gives Gauss
quadratures of those sums (for the signs, a stochastic estimate of the trace). One space
serves all columns, so a few steps are enough. All in float64: the choice of the ridge
stands on differences that float32 would blur.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr
from threadpoolctl import threadpool_limits

from safle.solver.panels import Progress
from safle.solver.reduction import Reduction
from safle.statistics import Statistics
from safle.statistics.kernels import triangle

DECOMPOSE_UP_TO = 1_500
STEPS = 20
PROBES = 6
MOST_COLUMNS = 16
"""More classes than this are mixed into so many random signed sums."""
ROUNDING = 1e-12
"""An eigenvalue below this, beside the largest, is none."""
BREAKDOWN = 1e-10
"""A direction that is new by less than this, beside the largest, is rounding."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Spectrum:
    """Two discrete measures on the eigenvalues, as nodes and masses.

    Attributes
    ----------
    nodes : (nodes,), eigenvalues, or where a quadrature puts them
    trace_masses : ``sum_i f(s_i)`` is ``sum(trace_masses * f(nodes))``
    target_masses : the same for ``sum_i f(s_i) |v_i' M|^2``
    trace : of the gram itself, the same bits on any machine
    """

    nodes: Matrix
    trace_masses: Matrix
    target_masses: Matrix
    trace: float


def spectrum_of(
    statistics: Statistics, reduction: Reduction, progress: Progress | None = None
) -> Spectrum:
    """The spectrum of the real gram."""
    target = statistics.cross * reduction.real[:, None]
    if reduction.reduced_dim <= DECOMPOSE_UP_TO:
        nodes, parts, probes = _decompose(reduction, target)
    else:
        nodes, parts, probes = _probe(statistics, reduction, target, progress)
    trace = float((statistics.diagonal * reduction.real**2).sum())
    return Spectrum(nodes, (probes**2).sum(axis=1), (parts**2).sum(axis=1), trace)


def _decompose(reduction: Reduction, target: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Eigenvalues, and in the eigenvectors' basis the target and an orthonormal one."""
    whole = (0, reduction.reduced_dim)
    values, vectors = eigh(reduction.tile(whole, whole, np.float64), lower=True)
    nodes = np.where(values > ROUNDING * values[-1], values, 0.0)
    return nodes, vectors.T @ reduction.forward(target), np.ones((len(nodes), 1))


def _probe(
    statistics: Statistics, reduction: Reduction, target: Matrix, progress: Progress | None
) -> tuple[Matrix, Matrix, Matrix]:
    """Quadrature nodes, and there the target and random signs in the place of a basis."""
    generator = np.random.Generator(np.random.PCG64(0))
    if target.shape[1] > MOST_COLUMNS:
        signs = generator.choice([-1.0, 1.0], (target.shape[1], MOST_COLUMNS))
        target = target @ signs / np.sqrt(MOST_COLUMNS)
    # Probes live in the range of the gram: its null space adds nothing to any sum.
    reduced = generator.choice([-1.0, 1.0], (reduction.reduced_dim, PROBES))
    start = np.concatenate([target, reduction.backward(reduced) / np.sqrt(PROBES)], axis=1)
    # BLAS has only thin blocks to multiply here. Its threads, waiting for more of them, would
    # take the cores from the passes over the gram, which then last twice as long.
    with threadpool_limits(1, "blas"):
        nodes, parts = _lanczos(statistics, reduction.real, start, progress)
    split = target.shape[1]
    return nodes, parts[:, :split], parts[:, split:]


def _lanczos(
    statistics: Statistics, real: Matrix, start: Matrix, progress: Progress | None
) -> tuple[Matrix, Matrix]:
    """Quadrature nodes, (nodes,), and the parts of every column there, (nodes, width)."""
    norms = np.linalg.norm(start, axis=0)
    block, first = _orthonormal(start / np.where(norms > 0, norms, 1.0), BREAKDOWN)
    # Column by column in memory, and all of it at once: it grows without being copied.
    whole = np.empty((len(start), STEPS * start.shape[1]), order="F")
    whole[:, : block.shape[1]], known = block, block.shape[1]
    within, beside = [], []
    # Half the bytes to read, and rounded alike on any machine.
    gram = statistics.gram.astype(np.float32)
    for step in range(STEPS):
        scaled = block * real[:, None]
        product = triangle.multiply(gram, statistics.dim, scaled) * real[:, None]
        inner = block.T @ product
        within.append((inner + inner.T) / 2)
        basis = whole[:, :known]
        for _ in range(2):
            # Twice is enough to keep the basis orthogonal to rounding.
            product -= basis @ (basis.T @ product)
        if progress is not None:
            progress((step + 1) / STEPS)
        largest = max(float(np.abs(square).max(initial=0.0)) for square in within)
        block, link = _orthonormal(product, BREAKDOWN * largest)
        if not len(link) or step == STEPS - 1:
            break
        whole[:, known : known + len(link)] = block
        known += len(link)
        beside.append(link)
    nodes, vectors = eigh(_band(within, beside))
    return np.maximum(nodes, 0.0), vectors[: len(first)].T @ (first * norms)


def _orthonormal(columns: Matrix, least: float) -> tuple[Matrix, Matrix]:
    """Q, (dim, rank), and R, (rank, width), with ``Q R = columns`` but for ``least``."""
    # Pivots are looked for in the small factor: on the tall one, that takes 30 times as long.
    tall, small = qr(columns, mode="economic")
    q, r, order = qr(small, pivoting=True)
    rank = int((np.abs(np.diagonal(r)) > least).sum())
    straight = np.empty((rank, columns.shape[1]))
    straight[:, order] = r[:rank]
    return tall @ q[:, :rank], straight


def _band(within: list[Matrix], beside: list[Matrix]) -> Matrix:
    """The block tridiagonal matrix, lower triangle, of diagonal blocks and those below."""
    starts = np.cumsum([0, *(len(block) for block in within)])
    band = np.zeros((starts[-1], starts[-1]))
    for k, block in enumerate(within):
        band[starts[k] : starts[k + 1], starts[k] : starts[k + 1]] = block
    for k, link in enumerate(beside):
        band[starts[k + 1] : starts[k + 2], starts[k] : starts[k + 1]] = link
    return band
