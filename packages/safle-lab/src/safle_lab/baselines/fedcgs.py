"""FedCGS: class means and one covariance, summed over clients; a Gaussian classifier.

"Capture Global Feature Statistics for One-Shot Federated Learning", AAAI 2025.

Clients send the sum of their features of every class, the sum of outer products and the
class counts. With the global means mu_c, the pooled covariance S and n_c samples of
class c, the server's classifier is the Gaussian one,
``argmax_c x' inverse(S) mu_c - mu_c' inverse(S) mu_c / 2 + log n_c``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from safle_lab.baselines.base import (
    Labels,
    LinearModel,
    Method,
    MethodSettings,
    NotNegative,
    Result,
    Task,
    message,
    one_hot,
)

Array = NDArray[np.float64]


class Settings(MethodSettings, frozen=True):
    """The settings of FedCGS: ``shrinkage`` of the covariance towards the mean variance."""

    shrinkage: NotNegative = 1e-3


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
    def of(cls, features: Array, labels: Labels, class_count: int) -> Moments:
        """Moments of one client's samples, float64."""
        members = one_hot(labels, class_count)
        return cls(members.sum(axis=0), members.T @ features, features.T @ features)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.counts + other.counts, self.sums + other.sums, self.outer + other.outer)

    def raised(self, power: float) -> Moments:
        """Moments of the likelihood raised to ``power``."""
        return Moments(power * self.counts, power * self.sums, power * self.outer)

    def as_message(self) -> dict[str, Array]:
        """The arrays to send; of the symmetric matrix, one triangle."""
        upper = self.outer[np.triu_indices(len(self.outer))]
        return {"counts": self.counts, "sums": self.sums, "outer": upper}


def run(task: Task, settings: Settings) -> Result:
    """One round: clients send moments, and the server makes the classifier of their sum."""
    clients = (
        Moments.of(features.astype(np.float64), labels, task.class_count)
        for features, labels in task.clients(reporting=1.0)
    )
    total = reduce(add, clients)
    # Every client's message has the size of this one: its arrays have the same shapes.
    up = len(message(total.as_message()))
    model = classifier(total, settings.shrinkage)
    content = message({"weights": model.weights, "intercept": np.asarray(model.intercept)})
    return Result(model, content, bytes_up=up, bytes_down=len(content))


def classifier(total: Moments, shrinkage: float) -> LinearModel:
    """The Gaussian classifier of summed moments, with the classes' shares as prior."""
    n = total.counts.sum()
    means = total.sums / np.maximum(total.counts, 1)[:, None]
    within = (total.outer - means.T @ (total.counts[:, None] * means)) / n
    without_prior = gaussian_classifier(means, within, shrinkage)
    with np.errstate(divide="ignore"):
        # A class without samples is never predicted: its logarithm is -inf.
        prior = np.log(total.counts / n)
    return LinearModel(without_prior.weights, without_prior.intercept + prior)


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


GRID = {"shrinkage": (1e-4, 1e-3, 1e-2)}
METHOD = Method("fedcgs", "FedCGS", "one-shot", run, Settings(), GRID, invariant=True)
