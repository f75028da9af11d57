"""The quadratic head: a covariance for each class, regularised (Friedman's RDA, 1989).

With d features, n samples in C classes, n_c of them in class c,

    ``Sigma_c = (1 - a) S_c + (1 - (1 - a)(1 - 1/n_c)) S + ridge / n I``,
    ``S_c = scatter_c / n_c``, ``S = sum_c scatter_c / (n - C)``,

with the ridge of the discriminant on the same columns; its temperature, times `TEMPERATURE_RATIO`,
is used too: features are not normal, and posteriors that assume it would be overconfident. So a
class of many samples has ``(1 - a) S_c + a S``, and one of a single sample has S: all have the same
scale, however few samples a class has. The score of class c is its log posterior,

    ``-|V_c' (x - m_c)|^2 / 2 + log det V_c + log(n_c / n)``, ``V_c V_c' = inverse(Sigma_c)``,

with V_c upper triangular.

**Directions.** With few samples per class, most of the d directions of S_c are noise. Then
only k of them count (`directions`): those in which the class varies most beside
``P = S + ridge / n I``. With ``V V' = inverse(P)``, and l_j > 1 the k largest eigenvalues of
``V' Sigma_c V``, u_j their eigenvectors, the others taken as 1, and ``-x' inverse(P) x / 2``,
which all classes share, left out:

    ``(inverse(P) m_c)' x - m_c' inverse(P) m_c / 2 + |G_c' (x - m_c)|^2 / 2 - sum_j log(l_j) / 2``,
    column j of G_c: ``sqrt(1 - 1 / l_j) V u_j``.

docs/trials.md tells how a and k were found. Integers become float64 entry by entry, and V_c and
G_c, by LAPACK, are rounded to 16 bits: equal statistics give equal heads on one machine, and
heads that agree up to rounding on another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack

from safle.basics.memory import require_free_memory
from safle.encoders.codes import CodeSpace
from safle.errors import InvalidInput, SolveError
from safle.solver.heads import BaseOf, FittedHead, Head, Matrix, Vector, discriminant
from safle.solver.ordered import log_shares
from safle.statistics.free_sums import sum_grams
from safle.statistics.statistics import Sums

if TYPE_CHECKING:
    from safle.solver.least_squares import LeastSquares

POOLED = 0.9
"""a: 0.85 to 0.95 gave similar results on every data set tried, from 100 samples per class on."""
SAMPLES_PER_DIRECTION = 5
TEMPERATURE_RATIO = 2**0.25
"""Its temperature over that of the discriminant: squares are even more overconfident."""
FACTOR_BITS = 15
OFFSET_BITS = 12
"""Bits of whitened values behind the binary point."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """What a model needs of the quadratic head, in integers.

    A class adds ``-share |y|^2 / 2`` to its score, with ``y = 2**exponent V' x - offsets /
    2**OFFSET_BITS`` and x the real values of `Layout.squared_columns`. If ``factors`` are
    directions G, it adds ``+share |y|^2 / 2``, with G in the place of V.

    Attributes
    ----------
    factors : int16, (class_count, d (d + 1) / 2), rows of upper triangular V; or
        (class_count, d, k), G
    exponent : factors are multiples of ``2**exponent``
    offsets : int32, (class_count, d), or (class_count, k)
    share : factor of the squares: the share of the quadratic head in the averaged one, else 1
    """

    factors: NDArray[np.int16]
    exponent: int
    offsets: NDArray[np.int32]
    share: float = 1.0

    @property
    def by_directions(self) -> bool:
        """Whether ``factors`` are G."""
        return self.factors.ndim == 3


def fit(sums: Sums, base_of: BaseOf) -> FittedHead:
    """The head of sums that are counted by class."""
    require_squares(sums)
    return fit_base(sums, base_of(sum_of_classes(sums)))


def fit_base(
    sums: Sums, base: LeastSquares, name: str = "quadratic", share: float = 1.0
) -> FittedHead:
    """The head, where ``base`` solves the sum of the classes' sums; of another head the share."""
    linear = discriminant.fit_base(base)
    d = len(sums.layout.squared_columns)
    k = directions(sums)
    classes = len(sums.class_names)
    class_bytes = k * d * 10 if k else d * (d + 1) * 5
    require_free_memory(
        classes * class_bytes + 8 * d * (6 * d + 100),
        purpose=f"factors of {classes} classes and {d} features",
        advice="solve on a machine with more memory, or take another head",
    )
    covariances = _ClassCovariances(sums)
    spread = linear.ridge / sums.sample_count
    if k:
        factors, offsets, weights, intercept = _find_directions(covariances, spread, k)
    else:
        factors, offsets, weights, intercept = _whiten(covariances, spread)
    intercept += log_shares(sums.class_counts)
    return FittedHead(
        name,
        linear.ridge,
        weights,
        intercept - intercept.mean(),
        linear.temperature and TEMPERATURE_RATIO * linear.temperature,
        _round(factors, offsets, share),
    )


class _ClassCovariances:
    """Means, (class_count, d), and covariances of the classes, and S, the pooled one."""

    def __init__(self, sums: Sums) -> None:
        columns = sums.layout.squared_columns
        self.sums = sums
        self._places = columns
        self._real = 1 / sums.layout.scales[columns]
        self.rows = len(sums.codes) + columns
        self.counts = sums.class_counts.astype(np.float64)
        real = sums.cross[self.rows] * self._real[:, None]
        self.means: Matrix = (real / self.counts).T
        whole = sum(part.gram_square() for part in sums.by_class)
        gram = self._real_gram(np.asarray(whole))
        free = max(sums.sample_count - len(self.counts), 1)
        self.pooled: Matrix = (gram - real @ self.means) / free

    def _real_gram(self, gram: NDArray[np.int64]) -> Matrix:
        real = gram[np.ix_(self._places, self._places)] * self._real
        return real * self._real[:, None]

    def of_class(self, place: int) -> Matrix:
        """S_c, (d, d)."""
        mean = self.means[place]
        own = self.sums.by_class[place].gram_square()
        covariance = self._real_gram(own) / self.counts[place]
        covariance -= mean[:, None] * mean
        return covariance


def can_square(sums: Sums) -> bool:
    """Whether the sums hold a gram for each class."""
    return len(sums.layout.squared_columns) > 0


def require_squares(sums: Sums) -> None:
    """Refuse sums that are not counted by class; `InvalidInput`."""
    if not can_square(sums):
        raise InvalidInput(
            "the statistics hold no gram for each class, which the quadratic head needs; count "
            "with an encoder made with by_class (`safle encoder make --by-class`), or take "
            "another head"
        )


def sum_of_classes(sums: Sums) -> Sums:
    """The sums over the columns that are counted by class, and no others."""
    layout = sums.layout.class_layout
    assert layout is not None, "nothing is counted by class"
    return Sums(
        CodeSpace(sums.fingerprint, layout),
        np.empty(0, np.int64),
        sums.cross[: layout.dim].copy(),
        sums.class_names,
        sums.class_counts,
        sum_grams([part.gram for part in sums.by_class], layout.dim),
    )


def directions(sums: Sums) -> int:
    """k, or 0 where whole triangles take no more room than k directions."""
    d = len(sums.layout.squared_columns)
    k = max(1, sums.sample_count // (SAMPLES_PER_DIRECTION * len(sums.class_names)))
    return k if 2 * k < d else 0


def _whiten(
    covariances: _ClassCovariances, spread: float
) -> tuple[NDArray[np.float32], Matrix, Matrix, Vector]:
    """The triangles V_c, offsets, weights of zero, and the intercepts ``log det V_c``."""
    classes, d = covariances.means.shape
    triangles = np.empty((classes, d * (d + 1) // 2), np.float32)
    upper = np.triu_indices(d)
    offsets = np.empty((classes, d))
    intercept = np.empty(classes)
    for place in range(classes):
        pooled_share = 1 - (1 - POOLED) * (1 - 1 / covariances.counts[place])
        own = (1 - POOLED) * covariances.of_class(place)
        white = _whitening(own + pooled_share * covariances.pooled, spread)
        triangles[place] = white[upper]
        offsets[place] = covariances.means[place] @ white
        intercept[place] = np.log(np.diagonal(white)).sum()
    weights = np.zeros((covariances.sums.dim, classes))
    return triangles, offsets, weights, intercept


def _whitening(covariance: Matrix, spread: float) -> Matrix:
    """Upper triangular V, ``V V' = inverse(covariance + spread I)``."""
    d = len(covariance)
    root, failed = lapack.dpotrf(covariance + spread * np.eye(d), lower=0, clean=1)
    if failed:
        raise SolveError("a class's covariance is singular; use a larger ridge")
    return lapack.dtrtri(root, lower=0)[0]


def _find_directions(
    covariances: _ClassCovariances, spread: float, k: int
) -> tuple[NDArray[np.float32], Matrix, Matrix, Vector]:
    """The directions G_c, offsets, weights, and intercepts."""
    classes, d = covariances.means.shape
    white = _whitening(covariances.pooled, spread)
    means = covariances.means @ white
    factors = np.empty((classes, d, k), np.float32)
    offsets = np.empty((classes, k))
    intercept = np.empty(classes)
    for place in range(classes):
        # Sigma_c - P: its eigenvalues are those of Sigma_c, less 1.
        own = covariances.of_class(place) - (1 - 1 / covariances.counts[place]) * covariances.pooled
        difference = white.T @ ((1 - POOLED) * own) @ white
        values, vectors = eigh(difference, subset_by_index=[d - k, d - 1])
        excess = np.maximum(values, 0.0)
        scaled = vectors * np.sqrt(excess / (1 + excess))
        factors[place] = white @ scaled
        offsets[place] = means[place] @ scaled
        intercept[place] = -(means[place] @ means[place] + np.log1p(excess).sum()) / 2
    weights = np.zeros((covariances.sums.dim, classes))
    weights[covariances.rows] = white @ (means - means.mean(axis=0)).T
    return factors, offsets, weights, intercept


def _round(real: NDArray[np.float32], offsets: Matrix, share: float) -> Quadratic:
    exponent = int(np.frexp(np.abs(real).max())[1]) - FACTOR_BITS
    most = (1 << FACTOR_BITS) - 1
    factors = np.clip(np.rint(np.ldexp(real, -exponent)), -most, most).astype(np.int16)
    steps = np.rint(np.ldexp(offsets, OFFSET_BITS))
    if np.abs(steps).max() > np.iinfo(np.int32).max:
        raise SolveError(
            "classes lie too far from what the encoder was calibrated on for the quadratic head; "
            "calibrate it on features like the clients'"
        )
    return Quadratic(factors, exponent, steps.astype(np.int32), share)


HEAD = Head(
    name="quadratic", summary="a covariance for each class, where clients counted by class", fit=fit
)
