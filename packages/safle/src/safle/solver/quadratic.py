"""The quadratic head: a covariance for each class, regularised (Friedman's RDA, 1989).

With d features, n samples in C classes, n_c of them in class c,

    ``Sigma_c = (1 - a) S_c + (1 - (1 - a)(1 - 1/n_c)) S + ridge / n I``,
    ``S_c = scatter_c / n_c``, ``S = sum_c scatter_c / (n - C)``,

with the ridge of the discriminant on the same columns; its temperature, times `WARMER`, is used
too: features are not normal, and posteriors as if they were would be too sure. So a class of many
samples has ``(1 - a) S_c + a S``, and one of a single sample has S: all have the same scale,
however few samples a class has. The score of class c is its log posterior,

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

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack

from safle.basics.memory import require_free_memory
from safle.encoders.codes import CodeSpace
from safle.errors import InvalidInput, SolveError
from safle.solver.heads import log_shares
from safle.solver.solution import OFFSET_BITS, Quadratic, Solution, squared_columns
from safle.statistics.free_sums import sum_grams
from safle.statistics.value import Sums

POOLED = 0.9
"""a: 0.85 to 0.95 did alike on every data set tried, from 100 samples per class on."""
COLUMNS_PER_FEATURE = 0.5
"""With this many other columns per squared column and class, the quadratic head is half of the
averaged one."""
SAMPLES_PER_DIRECTION = 5
WARMER = 2**0.25
"""Times the temperature of the discriminant: squares are surer still."""
FACTOR_BITS = 15
Matrix = NDArray[np.float64]


class ClassCovariances:
    """Means, (class_count, d), and covariances of the classes, and S, the pooled one."""

    def __init__(self, statistics: Sums) -> None:
        layout, n = statistics.layout, statistics.sample_count
        columns = squared_columns(layout)
        self.statistics = statistics
        self._places = columns
        self._real = 1 / layout.scales[columns]
        self.rows = len(statistics.codes) + columns
        self.counts = statistics.class_counts.astype(np.float64)
        sums = statistics.cross[self.rows] * self._real[:, None]
        self.means: Matrix = (sums / self.counts).T
        whole = sum(part.gram_square() for part in statistics.by_class)
        gram = self._real_gram(np.asarray(whole))
        self.pooled: Matrix = (gram - sums @ self.means) / max(n - len(self.counts), 1)

    def _real_gram(self, gram: NDArray[np.int64]) -> Matrix:
        real = gram[np.ix_(self._places, self._places)] * self._real
        return real * self._real[:, None]

    def of_class(self, place: int) -> Matrix:
        """S_c, (d, d)."""
        mean = self.means[place]
        own = self.statistics.by_class[place].gram_square()
        covariance = self._real_gram(own) / self.counts[place]
        covariance -= mean[:, None] * mean
        return covariance


def can_square(statistics: Sums) -> bool:
    """Whether the statistics hold a gram for each class."""
    return len(squared_columns(statistics.layout)) > 0


def quadratic_share(statistics: Sums) -> float:
    """Share of the quadratic head in the averaged one; more other columns make it smaller."""
    d = len(squared_columns(statistics.layout))
    at_half = COLUMNS_PER_FEATURE * d * len(statistics.class_names)
    return at_half / (at_half + statistics.dim - d - len(statistics.layout.constants))


def sum_of_classes(statistics: Sums) -> Sums:
    """The sums over the columns that are counted by class, and no others."""
    layout = statistics.layout.class_layout
    assert layout is not None, "nothing is counted by class"
    return Sums(
        CodeSpace(statistics.fingerprint, layout),
        np.empty(0, np.int64),
        statistics.cross[: layout.dim].copy(),
        statistics.class_names,
        statistics.class_counts,
        sum_grams([part.gram for part in statistics.by_class], layout.dim),
    )


def directions(statistics: Sums) -> int:
    """k, or 0 where whole triangles take no more room than k directions."""
    d = len(squared_columns(statistics.layout))
    samples = SAMPLES_PER_DIRECTION * len(statistics.class_names)
    k = max(1, statistics.sample_count // samples)
    return k if 2 * k < d else 0


def require_squares(statistics: Sums) -> None:
    """Refuse statistics that are not counted by class; `InvalidInput`."""
    if not can_square(statistics):
        raise InvalidInput(
            "the statistics hold no gram for each class, which the quadratic head needs; count "
            "with an encoder made with by_class (`safle encoder make --by-class`), or take "
            "another head"
        )


def quadratic(statistics: Sums, linear: Solution) -> Solution:
    """The head, from statistics by class and the discriminant head of the same columns."""
    d, k = len(squared_columns(statistics.layout)), directions(statistics)
    classes = len(statistics.class_names)
    class_bytes = k * d * 10 if k else d * (d + 1) * 5
    require_free_memory(
        classes * class_bytes + 8 * d * (6 * d + 100),
        purpose=f"factors of {classes} classes and {d} features",
        advice="solve on a machine with more memory, or take another head",
    )
    counted, spread = ClassCovariances(statistics), linear.ridge / statistics.sample_count
    solved = _find_directions(counted, spread, k) if k else _whiten(counted, spread)
    head, weights, intercept = solved
    intercept += log_shares(statistics.class_counts)
    return Solution.of(
        statistics,
        head="quadratic",
        weights=weights,
        intercept=intercept - intercept.mean(),
        quadratic=head,
        temperature=linear.temperature and WARMER * linear.temperature,
        ridge=linear.ridge,
        curve=linear.curve,
        residual=0.0,
        precision="float64",
    )


def average(linear: Solution, squared: Solution, share: float) -> Solution:
    """The mean of a linear head and the quadratic one, which has the ``share``."""
    assert squared.quadratic is not None, "the quadratic head has squares"
    linear_share = (1 - share) * (squared.temperature or 1.0) / (linear.temperature or 1.0)
    return replace(
        linear,
        weights=linear.weights * linear_share + squared.weights * share,
        intercept=linear.intercept * linear_share + squared.intercept * share,
        quadratic=replace(squared.quadratic, share=share),
        temperature=squared.temperature,
    )


def _whiten(covariances: ClassCovariances, spread: float) -> tuple[Quadratic, Matrix, Matrix]:
    """The triangles V_c, weights of zero, and the intercepts ``log det V_c``."""
    classes, d = covariances.means.shape
    triangles = np.empty((classes, d * (d + 1) // 2), np.float32)
    upper = np.triu_indices(d)
    offsets, intercept = np.empty((classes, d)), np.empty(classes)
    for place in range(classes):
        pooled_share = 1 - (1 - POOLED) * (1 - 1 / covariances.counts[place])
        own = (1 - POOLED) * covariances.of_class(place)
        white = _whitening(own + pooled_share * covariances.pooled, spread)
        triangles[place] = white[upper]
        offsets[place] = covariances.means[place] @ white
        intercept[place] = np.log(np.diagonal(white)).sum()
    weights = np.zeros((covariances.statistics.dim, classes))
    return _round(triangles, offsets), weights, intercept


def _whitening(covariance: Matrix, spread: float) -> Matrix:
    """Upper triangular V, ``V V' = inverse(covariance + spread I)``."""
    d = len(covariance)
    root, failed = lapack.dpotrf(covariance + spread * np.eye(d), lower=0, clean=1)
    if failed:
        raise SolveError("a class's covariance is singular; use a larger ridge")
    white: Matrix = lapack.dtrtri(root, lower=0)[0]
    return white


def _find_directions(
    covariances: ClassCovariances, spread: float, k: int
) -> tuple[Quadratic, Matrix, Matrix]:
    """The directions G_c, weights, and intercepts."""
    classes, d = covariances.means.shape
    white = _whitening(covariances.pooled, spread)
    means = covariances.means @ white
    factors, offsets = np.empty((classes, d, k), np.float32), np.empty((classes, k))
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
    weights = np.zeros((covariances.statistics.dim, classes))
    weights[covariances.rows] = white @ (means - means.mean(axis=0)).T
    return _round(factors, offsets), weights, intercept


def _round(real: NDArray[np.float32], offsets: Matrix) -> Quadratic:
    exponent = int(np.frexp(np.abs(real).max())[1]) - FACTOR_BITS
    most = (1 << FACTOR_BITS) - 1
    factors = np.clip(np.rint(np.ldexp(real, -exponent)), -most, most).astype(np.int16)
    steps = np.rint(np.ldexp(offsets, OFFSET_BITS))
    if np.abs(steps).max() > np.iinfo(np.int32).max:
        raise SolveError(
            "classes lie too far from what the encoder was calibrated on for the quadratic head; "
            "calibrate it on features like the clients'"
        )
    return Quadratic(factors, exponent, steps.astype(np.int32))
