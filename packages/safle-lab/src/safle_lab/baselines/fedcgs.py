"""FedCGS: class means and one covariance, summed over clients; a Gaussian classifier.

"Capture Global Feature Statistics for One-Shot Federated Learning", AAAI 2025.

Clients send the sum of their features of every class, the sum of outer products and the
class counts. With the global means mu_c, the pooled covariance S and n_c samples of
class c, the server's classifier is the Gaussian one,
``argmax_c x' inverse(S) mu_c - mu_c' inverse(S) mu_c / 2 + log n_c``.
"""

from functools import reduce
from operator import add

import numpy as np

from safle_lab.baselines.base import (
    LinearModel,
    Method,
    MethodSettings,
    NotNegative,
    Result,
    Task,
    message,
)
from safle_lab.baselines.gaussian import Moments, gaussian_classifier


class Settings(MethodSettings, frozen=True):
    """The settings of FedCGS: ``shrinkage`` of the covariance towards the mean variance."""

    shrinkage: NotNegative = 1e-3


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
    """The Gaussian classifier of summed moments, with the classes' shares."""
    n = total.counts.sum()
    means = total.sums / np.maximum(total.counts, 1)[:, None]
    within = (total.outer - means.T @ (total.counts[:, None] * means)) / n
    without_prior = gaussian_classifier(means, within, shrinkage)
    with np.errstate(divide="ignore"):
        # A class without samples is never predicted: its logarithm is -inf.
        prior = np.log(total.counts / n)
    return LinearModel(without_prior.weights, without_prior.intercept + prior)


GRID = {"shrinkage": (1e-4, 1e-3, 1e-2)}
METHOD = Method("fedcgs", "FedCGS", "one-shot", run, Settings(), GRID, invariant=True)
