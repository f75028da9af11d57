"""Spectral sums of the gram: what a ridge of any strength would do, from one sweep.

With C = sum_i s_i v_i v_i' (real units), every criterion for the ridge needs only
``sum_i f(s_i)`` and ``sum_i f(s_i) |v_i' M|^2``. Small grams are decomposed. Large ones
are probed: a few Lanczos steps from each column of M, and from random signs for the
trace, give Gauss quadratures of those sums (stochastic Lanczos quadrature).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigh_tridiagonal

from safle.solver.reduction import Reduction
from safle.solver.tiles import Progress
from safle.statistics import Statistics
from safle.statistics.kernels import triangle

DECOMPOSE_UP_TO = 1_500
STEPS = 48
PROBES = 8
MOST_COLUMNS = 32
"""More classes than this are mixed into so many random signed sums."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Spectrum:
    """Two discrete measures on the eigenvalues, as nodes and masses.

    Attributes
    ----------
    trace_nodes, trace_masses : ``sum_i f(s_i)`` is ``sum(masses * f(nodes))``
    target_nodes, target_masses : the same for ``sum_i f(s_i) |v_i' M|^2``
    """

    trace_nodes: Matrix
    trace_masses: Matrix
    target_nodes: Matrix
    target_masses: Matrix

    @property
    def largest(self) -> float:
        return float(max(self.trace_nodes.max(initial=0.0), self.target_nodes.max(initial=0.0)))


def spectrum_of(
    statistics: Statistics, reduction: Reduction, progress: Progress | None = None
) -> Spectrum:
    """The spectrum of the real gram."""
    if reduction.reduced_dim <= DECOMPOSE_UP_TO:
        return _decomposed(statistics, reduction)
    return _probed(statistics, reduction, progress)


def _decomposed(statistics: Statistics, reduction: Reduction) -> Spectrum:
    whole = (0, reduction.reduced_dim)
    values, vectors = eigh(reduction.tile(whole, whole, np.float64), lower=True)
    values = np.maximum(values, 0.0)
    target = reduction.forward(statistics.cross * reduction.real[:, None])
    masses = ((vectors.T @ target) ** 2).sum(axis=1)
    return Spectrum(values, np.ones_like(values), values, masses)


def _probed(statistics: Statistics, reduction: Reduction, progress: Progress | None) -> Spectrum:
    generator = np.random.Generator(np.random.PCG64(0))
    target = statistics.cross * reduction.real[:, None]
    if target.shape[1] > MOST_COLUMNS:
        signs = generator.choice([-1.0, 1.0], (target.shape[1], MOST_COLUMNS))
        target = target @ signs / np.sqrt(MOST_COLUMNS)
    # Probes live in the range of the gram: its null space adds nothing to any sum.
    reduced = generator.choice([-1.0, 1.0], (reduction.reduced_dim, PROBES))
    start = np.concatenate([target, reduction.backward(reduced)], axis=1)
    nodes, masses = _lanczos(statistics, reduction.real, start, progress)
    split = target.shape[1]
    return Spectrum(
        nodes[split:].ravel(),
        masses[split:].ravel() / PROBES,
        nodes[:split].ravel(),
        masses[:split].ravel(),
    )


def _lanczos(
    statistics: Statistics, real: Matrix, start: Matrix, progress: Progress | None
) -> tuple[Matrix, Matrix]:
    """Quadrature nodes and masses of every column of ``start``; (width, steps) each."""
    width = start.shape[1]
    norms = np.linalg.norm(start, axis=0)
    basis = np.zeros((STEPS + 1, *start.shape))
    basis[0] = start / np.where(norms > 0, norms, 1.0)
    diagonal, beside = np.zeros((STEPS, width)), np.zeros((STEPS, width))
    for step in range(STEPS):
        scaled = basis[step] * real[:, None]
        product = triangle.multiply(statistics.gram, statistics.dim, scaled) * real[:, None]
        diagonal[step] = np.einsum("ik,ik->k", basis[step], product)
        known = basis[: step + 1]
        for _ in range(2):
            # Twice is enough to keep the basis orthogonal to rounding.
            product -= np.einsum("tik,tk->ik", known, np.einsum("tik,ik->tk", known, product))
        beside[step] = np.linalg.norm(product, axis=0)
        alive = beside[step] > 1e-10 * np.maximum(diagonal[0], 1e-300)
        beside[step] = np.where(alive, beside[step], 0.0)
        basis[step + 1] = np.where(alive, product / np.where(alive, beside[step], 1.0), 0.0)
        if progress is not None:
            progress((step + 1) / STEPS)
    return _quadrature(diagonal, beside, norms)


def _quadrature(diagonal: Matrix, beside: Matrix, norms: Matrix) -> tuple[Matrix, Matrix]:
    nodes = np.zeros((len(norms), len(diagonal)))
    masses = np.zeros_like(nodes)
    for column, norm in enumerate(norms):
        ended = np.flatnonzero(beside[:, column] == 0.0)
        size = int(ended[0]) + 1 if len(ended) else len(diagonal)
        values, vectors = _tridiagonal(diagonal[:size, column], beside[: size - 1, column])
        nodes[column, :size] = np.maximum(values, 0.0)
        masses[column, :size] = norm**2 * vectors[0] ** 2
    return nodes, masses


def _tridiagonal(diagonal: Matrix, beside: Matrix) -> tuple[Any, Any]:
    if len(diagonal) == 1:
        return diagonal, np.ones((1, 1))
    return eigh_tridiagonal(diagonal, beside)
