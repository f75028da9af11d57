"""Heads: from the solved system to scores. All are exact functions of the sums.

- least squares: ``W = B = inverse(C + ridge) M``, no intercept;
- discriminant (LDA with the regularised within-class scatter ``C + ridge - M inverse(N)
  M'``): by Woodbury, with N the class counts, ``W = B A``, ``A = n inverse(N - M'B)``, and
  ``intercept_c = log(n_c / n) - mean_c' W_c / 2 = log(n_c / n) - (A_cc - n / n_c) / 2``,
  both less their mean over the classes: within classes the constant has no scatter, so
  along it W is n / ridge for every class. That part favours no class, and would take all
  the bits of the saved weights;
- averaged: the mean of both, after least squares is stretched until its matrix (a multiple
  of I in the place of A) has the discriminant's trace; where statistics are counted by
  class, the mean of that and of the quadratic head, by `safle.solver.quadratic`. Two
  classes have one direction, whatever the head: their scores are log odds, by
  `safle.solver.temperature`;
- quadratic: see `safle.solver.quadratic`.

B lies on a grid that does not depend on the factorisation, and every later sum of the linear heads
has a fixed order: they have the same bits on any machine. BLAS libraries add in other orders, and
C libraries differ in the last bit of a logarithm. Matrices of classes are small, so plain loops do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.errors import InvalidInput, SolveError
from safle.tables.checks import ClassName

LEAST_PIVOT = 1e-13
MOST_CLASSES = 2_000
"""For heads that invert a matrix of classes: twice as many classes take 8 times as long."""
Matrix = NDArray[np.float64]
Priors = Literal["uniform"] | Mapping[ClassName, float]
"""How frequent classes are where a model is used, if not as they were counted."""
_multiply_in_order = Kernel(
    "multiply_in_order",
    "left f8[rows, inner]; right f8[inner, width]; inner; width; result f8[rows, width]!",
    pieces="rows",
)
_invert_in_order = Kernel(
    "invert_in_order", "matrix f8[size, size]!", "size", "smallest f8[size]", "failed i8[1]!"
)
_factor_in_order = Kernel("factor_in_order", "matrix f8[size, size]!", "size", "failed i8[1]!")


def discriminant(
    weights: Matrix, target: Matrix, class_counts: NDArray[np.int64], *, average: bool = False
) -> tuple[Matrix, Matrix, Matrix]:
    """A, M'B and intercept of the LDA head, or of the averaged one, from B and the real M."""
    counts, classes = class_counts.astype(np.float64), len(class_counts)
    if classes > MOST_CLASSES:
        raise SolveError(
            f"{classes} classes; this head takes at most {MOST_CLASSES}: use head 'least-squares'"
        )
    n = float(class_counts.sum())
    product = multiply_in_order(np.ascontiguousarray(target.T), weights)
    mixing = np.diag(counts) - product
    if not invert_in_order(mixing, LEAST_PIVOT * counts):
        raise SolveError("the within-class scatter is singular; use a larger ridge")
    mixing *= n
    intercept = log_shares(class_counts) - 0.5 * (np.diagonal(mixing) - n / counts)
    if average:
        # The trace of A less its mean over the classes, for each of the K - 1 directions left.
        strength = (np.trace(mixing) - mixing.sum() / classes) / max(classes - 1, 1)
        mixing = (mixing + strength * np.eye(classes)) / 2
        intercept = intercept / 2
    mixing -= mixing.mean(axis=1, keepdims=True)
    return mixing, product, intercept - intercept.mean()


def shift_of(
    priors: Priors, class_names: tuple[ClassName, ...], class_counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What priors add to log posteriors, (class_count,), less its mean over the classes.

    Scores over their temperature are log posteriors: each moves by ``log prior_c - log n_c / n``.

    >>> shift_of("uniform", ("ill", "well"), np.array([1, 3])).round(6).tolist()
    [0.549306, -0.549306]
    """
    shift = -log_shares(class_counts)
    if priors != "uniform":
        shift += [float(Decimal(float(p)).ln()) for p in _check_priors(priors, class_names)]
    return shift - math.fsum(shift) / len(shift)


def _check_priors(priors: Priors, class_names: tuple[ClassName, ...]) -> list[float]:
    if not isinstance(priors, Mapping):
        raise InvalidInput(f"priors {priors!r}; expected 'uniform', or a number for each class")
    if wrong := [str(name) for name in {*priors} ^ {*class_names}]:
        raise InvalidInput(
            f"priors name {len(priors)} classes, the statistics {len(class_names)}; "
            f"only one of them names {', '.join(sorted(wrong)[:5])}: give a prior for each class"
        )
    for name, prior in priors.items():
        if not 0 < float(prior) < math.inf:
            raise InvalidInput(f"prior {prior!r} of class {name!r}; expected a positive number")
    return [priors[name] for name in class_names]


def multiply_in_order(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``left @ right``, every entry summed in one order."""
    result = np.empty((len(left), right.shape[1]))
    _multiply_in_order(left, right, result)
    return result


def invert_in_order(matrix: NDArray[np.float64], least: NDArray[np.float64]) -> bool:
    """Invert a positive definite matrix in place.

    Returns False, and leaves ``matrix`` unusable, if a pivot k is not above ``least[k]``.
    """
    failed = np.zeros(1, np.int64)
    _invert_in_order(matrix, least, failed)
    return not failed[0]


def factor_in_order(matrix: NDArray[np.float64]) -> bool:
    """``matrix = U' U``: its upper triangle becomes U; False if it is not positive definite."""
    failed = np.zeros(1, np.int64)
    _factor_in_order(matrix, failed)
    return not failed[0]


def log_shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """``log(n_c / n)``, correctly rounded, of counts n_c that add up to n.

    >>> log_shares(np.array([1, 1])).tolist()
    [-0.6931471805599453, -0.6931471805599453]
    """
    whole = Decimal(int(counts.sum())).ln()
    return np.array([float(Decimal(count).ln() - whole) for count in counts.tolist()])
