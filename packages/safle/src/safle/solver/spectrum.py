"""Spectral sums of the gram: what a ridge of any strength would do, from one sweep.

With the gram ``C = sum_i s_i v_i v_i'`` and the target ``M``, the cross (both in real units), every
criterion for the ridge needs only ``sum_i f(s_i)`` and ``sum_i f(s_i) |v_i' M|^2``. There are three
ways to these sums:

- A small gram is decomposed.
- A gram of few samples has a root, ``C = L L'`` (`Reduction.root`). The matrix ``K = L'L`` has all
  eigenvalues of C that are not zero, and no others.
- If C or K is large, it is probed: block Lanczos starts from the target and random signs together,
  and gives Gauss quadratures of the sums (Golub and Meurant, 2010; for the signs, stochastic
  estimates of the trace). All columns share one Krylov space, so a few steps are enough.

Sums are float64: the choice of the ridge rests on differences that float32 would blur.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr, solve_triangular

from safle.basics.progress import Progress, no_progress
from safle.solver.reduction import Reduction, square_of
from safle.statistics import triangle

LANCZOS_STEPS = 20
PROBES = 6
DEVIATIONS = 2.0
"""The mean over random probes may err by this many of its standard deviations."""
MAX_TARGETS = 16
"""More classes than this are mixed into this many random signed sums."""
ROUNDING = 1e-12
"""An eigenvalue below this share of the largest is rounding."""
BREAKDOWN = 1e-10
"""A new direction shorter than this share of the largest entry is rounding."""

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Multiply = Callable[[Matrix], Matrix]
Function = Callable[[Matrix], Matrix]
Masses = tuple[Vector, Matrix, Vector]
"""The first three fields of a `Spectrum`."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The spectrum of a gram, exact or by quadrature.

    Functions take eigenvalues, (nodes, 1), and return a value for each ridge, (nodes, ridges).

    Attributes
    ----------
    nodes : float64, (nodes,), eigenvalues, or the nodes of a quadrature
    trace_masses : float64, (nodes, probes), how many eigenvalues a node stands for, by each probe;
        the only one where the spectrum is exact
    target_masses : float64, (nodes,), ``|v_i' M|^2``
    trace : of the gram itself, not an estimate: the same bits on any machine
    rank : the largest that the gram can have
    """

    nodes: Vector
    trace_masses: Matrix
    target_masses: Vector
    trace: float
    rank: int

    def sum_trace(self, function: Function) -> Vector:
        """``sum_i f(s_i)``, (ridges,)."""
        return (self.trace_masses.T @ function(self.nodes[:, None])).mean(axis=0)

    def sum_target(self, function: Function) -> Vector:
        """``sum_i f(s_i) |v_i' M|^2``, (ridges,)."""
        return self.target_masses @ function(self.nodes[:, None])

    def degrees_of_freedom(self, ridges: Vector) -> Vector:
        """``sum_i s_i / (s_i + ridge)`` for every ridge, (ridges,)."""
        return np.minimum(self.sum_trace(lambda s: s / (s + ridges)), self.rank)

    def most_degrees_of_freedom(self, ridges: Vector) -> Vector:
        """The same, and `DEVIATIONS` of the mean more: what they may be at most."""
        found = self.degrees_of_freedom(ridges)
        probes = self.trace_masses.shape[1]
        if probes == 1:
            return found
        shares = self.nodes[:, None] / (self.nodes[:, None] + ridges)
        deviations = (self.trace_masses.T @ shares).std(axis=0, ddof=1) / np.sqrt(probes)
        return np.minimum(found + DEVIATIONS * deviations, self.rank)


def spectrum_of(reduction: Reduction, progress: Progress = no_progress) -> Spectrum:
    """The spectrum of the gram in real units."""
    if reduction.root is not None:
        nodes, trace_masses, masses = _measure_root(reduction, *reduction.root, progress)
    elif reduction.is_small:
        target = reduction.forward(reduction.target)
        nodes, trace_masses, masses = decompose(reduction.gram(), target, reduction.rank)
    else:
        nodes, trace_masses, masses = _measure_gram(reduction, progress)
    return Spectrum(nodes, trace_masses, masses, reduction.trace, reduction.rank)


def decompose(gram: Matrix, target: Matrix, rank: int) -> Masses:
    """The nodes and exact masses of a matrix given by its lower triangle."""
    values, vectors = eigh(gram, lower=True)
    nodes = np.where(values > ROUNDING * values[-1], values, 0.0)
    nodes[: max(0, len(nodes) - rank)] = 0.0
    return nodes, np.ones((len(nodes), 1)), ((vectors.T @ target) ** 2).sum(axis=1)


def _measure_root(
    reduction: Reduction, root: Matrix, pivots: NDArray[np.int64], progress: Progress
) -> Masses:
    target = solve_triangular(root[pivots], reduction.target[pivots], lower=True)
    if reduction.is_small:
        nodes, trace_masses, masses = decompose(square_of(root), target, reduction.rank)
    else:
        signs = _signs(root.shape[1])
        nodes, trace_masses, masses = _probe(lambda x: root.T @ (root @ x), target, signs, progress)
    # An eigenvector u_i of K has |v_i' M|^2 = s_i |u_i' c|^2, where L c = M.
    return nodes, trace_masses, nodes * masses


def _measure_gram(reduction: Reduction, progress: Progress) -> Masses:
    dim = reduction.sums.dim
    steps = reduction.steps[:, None]
    # float32 halves the bytes to read, and rounds alike on any machine.
    gram = reduction.sums.gram.packed.astype(np.float32)
    # Probes lie in the range of the gram: its null space adds nothing to any sum.
    signs = reduction.backward(_signs(reduction.reduced_dim))

    def multiply(columns: Matrix) -> Matrix:
        return triangle.multiply(gram, dim, columns * steps) * steps

    return _probe(multiply, reduction.target, signs, progress)


def _probe(multiply: Multiply, target: Matrix, signs: Matrix, progress: Progress) -> Masses:
    """The nodes and masses of a matrix by its products with the target and random signs."""
    mixed = _mix(target)
    start = np.concatenate([mixed, signs], axis=1)
    nodes, masses = _quadrature(multiply, start, LANCZOS_STEPS, progress)
    width = mixed.shape[1]
    return nodes, masses[:, width:], masses[:, :width].sum(axis=1)


def _signs(size: int) -> Matrix:
    return np.random.Generator(np.random.PCG64(0)).choice([-1.0, 1.0], (size, PROBES))


def _mix(target: Matrix) -> Matrix:
    """Many columns as few random signed sums of them, with the same squares on average."""
    if target.shape[1] <= MAX_TARGETS:
        return target
    generator = np.random.Generator(np.random.PCG64(1))
    signs = generator.choice([-1.0, 1.0], (target.shape[1], MAX_TARGETS))
    return target @ signs / np.sqrt(MAX_TARGETS)


def _quadrature(
    multiply: Multiply, start: Matrix, steps: int, progress: Progress
) -> tuple[Vector, Matrix]:
    """Gauss nodes, (nodes,), of a symmetric matrix, and masses at them, (nodes, columns).

    ``multiply`` gives the matrix's products with columns. For each column x of ``start``,
    ``x' f(matrix) x`` is about the sum of f at the nodes times its masses, by block Lanczos.
    """
    norms = np.linalg.norm(start, axis=0)
    block, in_block = _orthonormal(start / np.where(norms > 0, norms, 1.0), BREAKDOWN)
    # In column order and allocated beforehand, the basis grows without being copied.
    storage = np.empty((len(start), steps * start.shape[1]), order="F")
    # In this basis, the matrix is block tridiagonal; its lower triangle is kept.
    band = np.zeros((storage.shape[1], storage.shape[1]))
    first = 0
    last = block.shape[1]
    largest = 0.0
    for step in range(steps):
        storage[:, first:last] = block
        product = multiply(block)
        inner = block.T @ product
        band[first:last, first:last] = (inner + inner.T) / 2
        largest = max(largest, float(np.abs(band[first:last, first:last]).max(initial=0.0)))
        progress((step + 1) / steps)
        if step == steps - 1:
            break
        basis = storage[:, :last]
        for _ in range(2):
            # Twice is enough to keep the basis orthogonal to rounding.
            product -= basis @ (basis.T @ product)
        block, link = _orthonormal(product, BREAKDOWN * largest)
        if not len(link):
            break
        band[last : last + len(link), first:last] = link
        first = last
        last += len(link)
    nodes, vectors = eigh(band[:last, :last], lower=True)
    masses = (vectors[: len(in_block)].T @ (in_block * norms)) ** 2
    return np.maximum(nodes, 0.0), masses


def _orthonormal(columns: Matrix, least: float) -> tuple[Matrix, Matrix]:
    """``columns = Q R``, (dim, rank) and (rank, width); pivots up to ``least`` count as zero."""
    # Pivoting the tall factor instead of the small one would take 30 times as long.
    tall, small = qr(columns, mode="economic")
    q, r, order = qr(small, pivoting=True)
    rank = int((np.abs(np.diagonal(r)) > least).sum())
    unpivoted = np.empty((rank, columns.shape[1]))
    unpivoted[:, order] = r[:rank]
    return tall @ q[:, :rank], unpivoted
