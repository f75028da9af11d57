"""Leading eigenvectors by the same steps on any machine.

Lanczos' method, every new vector made orthogonal to all before it twice, and implicit QL on
the tridiagonal matrix that it leaves. There are only sums, products, quotients and square
roots, which IEEE 754 rounds in one way, in an order that is written down here: equal
matrices give equal bits, though eigenvectors as such have free signs, and near ones mix.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.encoders.shuffle import hashes
from safle.solver.kernels import multiply_in_order

MORE_STEPS = 48
"""Of Lanczos' method, beyond two for each direction that is wanted."""
LEAST_STEP = 1e-10
"""A shorter rest, of a matrix of about one, is rounding: no further direction is in it."""
MOST_TURNS = 100
"""Of implicit QL for one eigenvalue; two or three are usual."""
PRECISION = 2.0**-52
Matrix = NDArray[np.float64]


def lead(
    matrices: Matrix, white: Matrix, count: int
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The ``count`` largest eigenvalues of ``white' matrix white`` and their eigenvectors.

    Parameters
    ----------
    matrices : float64, (classes, d, d), symmetric
    white : float64, (d, d), upper triangular

    Returns
    -------
    list of (values, vectors)
        of each class: descending, (found,), and (found, d); fewer than ``count`` are found
        where the matrix has fewer that differ

    Examples
    --------
    >>> [(values, vectors)] = lead(np.diag([1.0, 3.0, 2.0])[None], np.eye(3), 1)
    >>> values.round(9).tolist(), abs(vectors).round(6).tolist()
    ([3.0], [[0.0, 1.0, 0.0]])
    """
    d = len(white)
    steps = min(d, 2 * count + MORE_STEPS)
    # Any start will do that is not orthogonal to what is looked for.
    signs = (hashes(0, d, 0) & np.uint64(1)).astype(np.float64)
    begin = (2 * signs - 1) / np.sqrt(float(d))
    turned = np.ascontiguousarray(white.T)
    bases = np.zeros((len(matrices), steps, d))
    values, vectors = np.zeros((len(matrices), steps)), np.zeros((len(matrices), steps, steps))
    found = _lead_each(matrices, np.ascontiguousarray(white), turned, begin, bases, values, vectors)
    result = []
    for place, size in enumerate(found.tolist()):
        own = values[place, :size]
        best = np.argsort(-own, kind="stable")[:count]
        chosen = np.ascontiguousarray(vectors[place][best, :size])
        result.append((own[best], multiply_in_order(chosen, bases[place, :size])))
    return result


@njit(cache=True, nogil=True)
def _add_rows(matrix, factors, first, result):  # type: ignore[no-untyped-def]
    """``result = matrix' factors``; row j begins with ``first * j`` zeros, or ends with them."""
    result[:] = 0.0
    for j in range(len(factors)):
        factor, row = factors[j], matrix[j]
        begin = j if first > 0 else 0
        end = j + 1 if first < 0 else len(result)
        for k in range(begin, end):
            result[k] += factor * row[k]


@njit(cache=True, nogil=True)
def _length(vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(vector)):
        total += vector[k] * vector[k]
    return np.sqrt(total)


@njit(cache=True, nogil=True)
def _reduce(matrix, white, turned, begin, basis, main, beside):  # type: ignore[no-untyped-def]
    """Lanczos: ``basis`` and the tridiagonal matrix; how many steps there were."""
    steps, d = basis.shape
    columns = np.zeros((d, steps))
    first, second, rest = np.empty(d), np.empty(d), begin.copy()
    shares = np.empty(steps)
    size = 1.0
    for step in range(steps):
        for k in range(d):
            basis[step, k] = rest[k] / size
            columns[k, step] = basis[step, k]
        _add_rows(turned, basis[step], -1, first)
        _add_rows(matrix, first, 0, second)
        _add_rows(white, second, 1, rest)
        for again in range(2):
            # Of columns that are not there yet the shares are 0.
            _add_rows(columns, rest, 0, shares)
            _add_rows(basis, shares[: step + 1], 0, first)
            for k in range(d):
                rest[k] -= first[k]
            main[step] = shares[step] if again == 0 else main[step] + shares[step]
        size = _length(rest)
        if not size > LEAST_STEP:
            return step + 1
        beside[step] = size
    return steps


@njit(cache=True, nogil=True)
def _turn(main, beside, vectors, first, last):  # type: ignore[no-untyped-def]
    """One implicit QL sweep over ``first`` to ``last``, shifted; rows of ``vectors`` follow."""
    half = (main[first + 1] - main[first]) / (2.0 * beside[first])
    root = np.sqrt(half * half + 1.0)
    g = main[last] - main[first] + beside[first] / (half + (root if half >= 0 else -root))
    s, c, p = 1.0, 1.0, 0.0
    for i in range(last - 1, first - 1, -1):
        f, b = s * beside[i], c * beside[i]
        r = np.sqrt(f * f + g * g)
        beside[i + 1] = r
        if r == 0.0:
            main[i + 1] -= p
            beside[last] = 0.0
            return
        s, c = f / r, g / r
        g = main[i + 1] - p
        r = (main[i] - g) * s + 2.0 * c * b
        p = s * r
        main[i + 1] = g + p
        g = c * r - b
        low, high = vectors[i], vectors[i + 1]
        for k in range(len(low)):
            held = high[k]
            high[k] = s * low[k] + c * held
            low[k] = c * low[k] - s * held
    main[first] -= p
    beside[first] = g
    beside[last] = 0.0


@njit(cache=True, nogil=True)
def _diagonalise(main, beside, vectors):  # type: ignore[no-untyped-def]
    """``main`` becomes the eigenvalues, the rows of ``vectors`` the eigenvectors."""
    size = len(main)
    for i in range(size):
        vectors[i, i] = 1.0
    for first in range(size):
        for _ in range(MOST_TURNS):
            last = first
            while last < size - 1:
                around = abs(main[last]) + abs(main[last + 1])
                if abs(beside[last]) <= PRECISION * around:
                    break
                last += 1
            if last == first:
                break
            _turn(main, beside, vectors, first, last)


@njit(cache=True, nogil=True, parallel=True)
def _lead_each(matrices, white, turned, begin, bases, values, vectors):  # type: ignore[no-untyped-def]
    found = np.zeros(len(matrices), np.int64)
    for index in prange(len(matrices)):
        place = np.int64(index)
        beside = np.zeros(bases.shape[1] + 1)
        own, main = bases[place], values[place]
        size = _reduce(matrices[place], white, turned, begin, own, main, beside)
        _diagonalise(main[:size], beside, vectors[place])
        found[place] = size
    return found
