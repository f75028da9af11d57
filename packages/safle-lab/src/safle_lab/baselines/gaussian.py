"""Gaussians of one covariance: what FedCGS and TOFA send, add up and classify by."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from safle_lab.baselines.base import Labels, LinearModel, one_hot

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Sufficient statistics; added with ``+``.

    Attributes
    ----------
    counts : samples of every class, (class_count,)
    sums : of their features, (class_count, feature_dim)
    outer : sum of x x', (feature_dim, feature_dim)
    """

    counts: Array
    sums: Array
    outer: Array

    @classmethod
    def of(cls, features: Array, labels: Labels, class_count: int) -> "Moments":
        """Moments of one client's samples, float64."""
        members = one_hot(labels, class_count)
        return cls(members.sum(axis=0), members.T @ features, features.T @ features)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.counts + other.counts, self.sums + other.sums, self.outer + other.outer)

    def raised(self, power: float) -> "Moments":
        """Those of the likelihood to a power."""
        return Moments(power * self.counts, power * self.sums, power * self.outer)

    def as_message(self) -> dict[str, Array]:
        """What is sent: of the symmetric matrix one triangle."""
        upper = self.outer[np.triu_indices(len(self.outer))]
        return {"counts": self.counts, "sums": self.sums, "outer": upper}


def gaussian_classifier(means: Array, covariance: Array, shrinkage: float) -> LinearModel:
    """``argmax_c x' inverse(S) mu_c - mu_c' inverse(S) mu_c / 2``, for equal shares of classes.

    Parameters
    ----------
    means : of every class, (class_count, feature_dim)
    covariance : of all classes, (feature_dim, feature_dim)
    shrinkage : share of the mean variance in place of the covariance
    """
    variance = np.trace(covariance) / len(covariance)
    shrunk = (1 - shrinkage) * covariance
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * variance
    weights = cho_solve(cho_factor(shrunk), means.T)
    return LinearModel(weights, -0.5 * np.einsum("cd,dc->c", means, weights))
