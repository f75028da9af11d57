"""Recover a few samples from their gram alone, by reduction (LLL) of a lattice of integers.

A column of Phi is a vector of n integers, one per sample, and so is the indicator of a class; gram
and cross hold the products of all these vectors. The vectors nearly always generate the lattice of
all integer vectors, whose shortest basis is the samples' unit vectors. LLL finds that basis from
the products alone, and the products of a unit vector with all columns are the codes of its sample.
Equal samples share one basis vector. The products are those of a `Residual`: statistics without the
samples that are known already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle import Codes, Statistics
from safle.basics import require_package

COLUMNS_AT_ONCE = 64
"""Columns of the gram that are unpacked together."""
PRIME = (1 << 61) - 1
COLUMNS_PER_SAMPLE = 8
MORE_COLUMNS = 64
"""How many columns generate the lattice: enough for all integer vectors, few enough to be fast."""


@dataclass
class Residual:
    """Statistics without the samples that are known.

    Attributes
    ----------
    whole : the statistics
    cross, class_counts : without the known samples, divided by ``times``
    known : rows of Phi of the known samples, over the seen columns, int32, (dim,)
    owners : class numbers of the known samples
    times : how often every sample is assumed to occur; it divides all sums
    """

    whole: Statistics
    cross: NDArray[np.int64]
    class_counts: NDArray[np.int64]
    known: list[NDArray[np.int32]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    times: int = 1

    @staticmethod
    def of(statistics: Statistics, times: int = 1) -> Residual:
        """The residual before any sample is known."""
        cross, counts = statistics.cross // times, statistics.class_counts // times
        return Residual(statistics, cross, counts, times=times)

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    def rows(self) -> NDArray[np.int32]:
        """The known samples, (known, dim)."""
        return np.array(self.known, np.int32).reshape(len(self.known), self.whole.dim)

    def columns(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of the gram, int64, (dim, chosen)."""
        # Sums of products of int16 are exact in float64, and fast.
        rows = self.rows().astype(np.float64)
        known = np.rint(rows.T @ rows[:, chosen]).astype(np.int64)
        return self.whole.gram.columns(chosen) // self.times - known

    def is_explained(self) -> bool:
        """Whether the known samples are all samples, and have exactly the gram's products."""
        parts = np.array_split(np.arange(self.whole.dim), self.whole.dim // COLUMNS_AT_ONCE + 1)
        return not self.samples and not any(self.columns(part).any() for part in parts)

    def take(self, row: NDArray[np.int64], owner: int) -> bool:
        """Subtract a sample if ``row`` could be one; return whether it could."""
        if not is_sample(self.whole, row):
            # The sums are not those of samples: this class is not looked at again.
            self.class_counts[owner] = 0
            return False
        self.known.append(row.astype(np.int32))
        self.owners.append(owner)
        self.cross[:, owner] -= row
        self.class_counts[owner] -= 1
        return True

    def codes(self) -> Codes:
        """The known samples' codes, as often as each was counted."""
        layout, rows, seen = self.whole.layout, self.rows(), len(self.whole.codes)
        rows = rows.repeat(self.times, axis=0)
        codes = self.whole.codes[np.nonzero(rows[:, :seen])[1]].reshape(len(rows), layout.experts)
        symbols = (codes - layout.bases[:-1]).astype(layout.symbol_type)
        return Codes(symbols, rows[:, seen:].astype(np.int16))


def common_divisor(statistics: Statistics) -> int:
    """The largest number that divides all sums; 1 if all are zero."""
    times = np.gcd.reduce(statistics.class_counts)
    times = np.gcd(times, np.gcd.reduce(statistics.cross, axis=None))
    if times > 1:
        times = np.gcd(times, np.gcd.reduce(statistics.gram.packed))
    for part in statistics.by_class:
        times = np.gcd(times, common_divisor(part))
    return max(int(times), 1)


def is_sample(statistics: Statistics, row: NDArray[np.integer]) -> bool:
    """Whether a row of Phi, (dim,), could be a sample's: a code per expert, all within limits."""
    seen, layout = len(statistics.codes), statistics.layout
    codes, dense = row[:seen], row[seen:]
    if ((codes < 0) | (codes > 1)).any():
        return False
    if ((dense < layout.low) | (dense > layout.high)).any():
        return False
    first = statistics.offsets[:-1]
    return not layout.experts or bool((np.add.reduceat(codes, first) == 1).all())


def find_by_lattice(residual: Residual) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield the remaining samples that can be found: codes, (dim,), and class number."""
    products, chosen = _generate(residual)
    gram, dim = products[:, chosen], residual.whole.dim
    norms, rows = _multiply_shortest(products, gram)
    signs = np.where(rows[:, dim:].sum(axis=1) < 0, -1, 1)[:, None]
    rows = rows * signs
    good = [_is_group(residual, norm, row) for norm, row in zip(norms, rows, strict=True)]
    within = rows[good][:, chosen]
    repeats = norms[good][:, None]
    # Vectors of length 1 are samples for certain; longer ones if they explain all products.
    all_explained = np.array_equal((within // repeats).T @ within, gram)
    for norm, row in zip(norms[good], rows[good], strict=True):
        if norm == 1 or all_explained:
            for class_number, repeated in enumerate(row[dim:].tolist()):
                yield from [(row[:dim] // norm, class_number)] * repeated


def _generate(residual: Residual) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Products of vectors that generate the lattice with all columns, and which columns they are.

    int64, (vectors, dim + class_count): some columns of Phi, and those of the labels.
    """
    dim, classes = residual.cross.shape
    column_count = COLUMNS_PER_SAMPLE * residual.samples + MORE_COLUMNS
    drawn = np.sort(np.random.default_rng(0).permutation(dim)[:column_count]).astype(np.int64)
    of_codes = np.concatenate([residual.columns(drawn).T, residual.cross[drawn]], axis=1)
    of_labels = np.concatenate([residual.cross.T, np.diag(residual.class_counts)], axis=1)
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
    rows = [[int(entry // denominator) for entry in multiplied[index]] for index in orthogonal]
    shape = len(orthogonal), products.shape[1]
    return lengths.diagonal()[orthogonal].astype(np.int64), np.array(rows, np.int64).reshape(shape)


def _is_group(residual: Residual, norm: int, row: NDArray[np.int64]) -> bool:
    """Whether a vector's products are those of ``norm`` equal samples."""
    codes, labels = np.split(row, [residual.whole.dim])
    if (codes % norm).any() or (labels < 0).any() or labels.sum() != norm:
        return False
    return is_sample(residual.whole, codes // norm)


def _flint() -> Any:
    return require_package("flint", "safle-lab[attack]", "lattice reduction")
