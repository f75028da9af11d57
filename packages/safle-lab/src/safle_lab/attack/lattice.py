"""Recover a few samples from their gram alone, by reduction (LLL) of a lattice of integers.

A column of Phi is a vector of n integers, one per sample, and so is the indicator of a class; gram
and cross hold the products of all these vectors. The vectors nearly always generate the lattice of
all integer vectors, whose shortest basis is the samples' unit vectors. LLL finds that basis from
the products alone, and the products of a unit vector with all columns are the codes of its sample.
Equal samples share one basis vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import MissingExtra
from safle_lab.attack.residual import Residual, is_sample

PRIME = (1 << 61) - 1
COLUMNS_PER_SAMPLE = 8
MORE_COLUMNS = 64
"""How many columns generate the lattice: enough for all integer vectors, few enough to be fast."""


def reduce_few(left: Residual) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield the remaining samples that can be found: codes, (dim,), and class number."""
    products, chosen = _generate(left)
    gram, dim = products[:, chosen], left.whole.dim
    norms, rows = _multiply_shortest(products, gram)
    signs = np.where(rows[:, dim:].sum(axis=1) < 0, -1, 1)[:, None]
    rows = rows * signs
    good = [_is_group(left, norm, row) for norm, row in zip(norms, rows, strict=True)]
    within = rows[good][:, chosen]
    repeats = norms[good][:, None]
    # Vectors of length 1 are samples for certain; longer ones if they explain all products.
    whole = np.array_equal((within // repeats).T @ within, gram)
    for norm, row in zip(norms[good], rows[good], strict=True):
        if norm == 1 or whole:
            for class_number, repeated in enumerate(row[dim:].tolist()):
                yield from [(row[:dim] // norm, class_number)] * repeated


def _generate(left: Residual) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Products of vectors that generate the lattice with all columns, and which columns they are.

    int64, (vectors, dim + class_count): some columns of Phi, and those of the labels.
    """
    dim, classes = left.cross.shape
    wanted = COLUMNS_PER_SAMPLE * left.samples + MORE_COLUMNS
    drawn = np.sort(np.random.default_rng(0).permutation(dim)[:wanted]).astype(np.int64)
    of_codes = np.concatenate([left.columns(drawn).T, left.cross[drawn]], axis=1)
    of_labels = np.concatenate([left.cross.T, np.diag(left.class_counts)], axis=1)
    chosen = np.concatenate([drawn, dim + np.arange(classes)])
    return np.concatenate([of_codes, of_labels]), chosen


def _find_independent(gram: NDArray[np.int64]) -> list[int]:
    """Numbers of a largest set of independent vectors; modulo a prime, which is fast."""
    size = len(gram)
    matrix = _flint().nmod_mat(size, size, (gram % PRIME).ravel().tolist(), PRIME)
    echelon, rank = matrix.rref()
    pivots, column = [], 0
    for row in range(rank):
        while not int(echelon[row, column]):
            column += 1
        pivots.append(column)
    return pivots


def _multiply_shortest(
    products: NDArray[np.int64], gram: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Squared lengths of the short vectors, and their products with all columns.

    Only vectors of a short basis that are orthogonal to all others are returned.
    """
    flint, basis = _flint(), _find_independent(gram)
    inner = flint.fmpz_mat(gram[np.ix_(basis, basis)].tolist())
    # All vectors in coordinates of the independent ones, over a common denominator.
    solved = flint.fmpq_mat(inner).solve(flint.fmpq_mat(flint.fmpz_mat(gram[basis].tolist())))
    points, denominator = solved.numer_denom()
    generated = flint.fmpz_mat(points.transpose().hnf().tolist()[: len(basis)])
    scaled = (generated * inner * generated.transpose()).tolist()
    lattice = flint.fmpz_mat([[entry // denominator**2 for entry in row] for row in scaled])
    short, moves = lattice.lll(transform=True, rep="gram")
    lengths = np.array([[int(entry) for entry in row] for row in short.tolist()], object)
    orthogonal = np.flatnonzero(np.count_nonzero(lengths, axis=1) == 1)
    multiplied = (moves * generated * flint.fmpz_mat(products[basis].tolist())).tolist()
    rows = [[int(entry // denominator) for entry in multiplied[at]] for at in orthogonal]
    shape = len(orthogonal), products.shape[1]
    return lengths.diagonal()[orthogonal].astype(np.int64), np.array(rows, np.int64).reshape(shape)


def _is_group(left: Residual, norm: int, row: NDArray[np.int64]) -> bool:
    """Whether a vector's products are those of ``norm`` equal samples."""
    codes, labels = np.split(row, [left.whole.dim])
    if (codes % norm).any() or (labels < 0).any() or labels.sum() != norm:
        return False
    return is_sample(left.whole, codes // norm)


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise MissingExtra("python-flint", "safle-lab[attack]", "lattice reduction") from None
    return flint
