"""FedCGS: class means and one covariance, summed over clients; a Gaussian classifier.

"Capture Global Feature Statistics for One-Shot Federated Learning", AAAI 2025.

Clients send the sum of their features of every class, the sum of outer products and the
class counts. With the global means mu_c, the pooled covariance S and n_c samples of
class c, the server's classifier is the Gaussian one,
``argmax_c x' inverse(S) mu_c - mu_c' inverse(S) mu_c / 2 + log n_c``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from safle_lab.baselines.base import LinearModel, Method, Result, Stopwatch, Task, message, one_hot


@dataclass(frozen=True)
class Settings:
    """What FedCGS can be told."""

    shrinkage: float = 1e-3


def run(task: Task, settings: Settings) -> Result:
    """One round of moments."""
    watch = Stopwatch()
    dim, classes = task.feature_dim, task.class_count
    outer, sums, counts = np.zeros((dim, dim)), np.zeros((classes, dim)), np.zeros(classes)
    size, upper = 0, np.triu_indices(dim)
    for features, labels in task.clients(reporting=1.0):
        values, members = features.astype(np.float64), one_hot(labels, classes)
        own, own_sums, own_counts = values.T @ values, members.T @ values, members.sum(axis=0)
        # All messages have the same size: dense matrices do not compress.
        if not size:
            size = len(message({"outer": own[upper], "sums": own_sums, "counts": own_counts}))
        outer += own
        sums += own_sums
        counts += own_counts
    model = gaussian_classifier(outer, sums, counts, shrinkage=settings.shrinkage)
    down = message({"weights": model.weights, "intercept": np.asarray(model.intercept)})
    return Result.of_one_round(task, model, watch, up=float(size), down=down)


def gaussian_classifier(
    outer: np.ndarray, sums: np.ndarray, counts: np.ndarray, *, shrinkage: float
) -> LinearModel:
    """The classifier of summed moments.

    Parameters
    ----------
    outer : sum of x x', (feature_dim, feature_dim)
    sums : of the features of every class, (class_count, feature_dim)
    counts : samples of every class, (class_count,)
    shrinkage : share of the mean variance in place of the covariance
    """
    n = counts.sum()
    means = sums / np.maximum(counts, 1)[:, None]
    within = (outer - means.T @ (counts[:, None] * means)) / n
    scale = np.trace(within) / len(within)
    shrunk = (1 - shrinkage) * within + shrinkage * scale * np.eye(len(within))
    weights = cho_solve(cho_factor(shrunk), means.T)
    with np.errstate(divide="ignore"):
        # A class nobody has is never predicted: the logarithm of no samples is -inf.
        prior = np.log(counts / n)
    return LinearModel(weights, prior - 0.5 * np.einsum("ck,kc->c", means, weights))


GRID = {"shrinkage": (1e-4, 1e-3, 1e-2)}
METHOD = Method("fedcgs", "FedCGS", "one-shot", run, Settings(), GRID, invariant=True)
