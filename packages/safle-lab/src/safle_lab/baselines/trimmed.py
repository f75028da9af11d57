"""The server subtracts clients whose labels fit badly: one round, exact, no second message.

This method is ours. The server solves the sum of all statistics by least squares. Every client's
statistics then say how badly the joint weights W fit its labels:

    r_k = (n_k - 2 tr(M_k'W) + tr(W'C_k W)) / n_k

Two Gaussians over r split the clients. If the larger mean is at least ``apart`` times the smaller
one, the server subtracts the clients of the larger: the model has the bytes of one that never saw
them. The server must read every client's statistics, so the method does not go with private sums.
"""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture

from safle import Encoder, LinearEncoder, Model, Solution, Statistics, count
from safle_lab.baselines import safle
from safle_lab.baselines.base import Method, Result, Task

Vector = NDArray[np.float64]


class Settings(safle.Settings, frozen=True):
    """The settings; ``apart`` is how many times worse a client must fit than the others."""

    columns: Literal["linear"] = "linear"
    transform: str = "square-root"
    head: str = "discriminant"
    apart: Annotated[float, Meta(gt=1)] = 4 / 3


def residual(statistics: Statistics, solution: Solution, encoder: Encoder) -> float:
    """A client's mean squared residual under the weights, from its statistics alone."""
    assert isinstance(encoder, LinearEncoder)
    weights = solution.weights / encoder.scale
    gram = np.zeros((statistics.dim, statistics.dim))
    gram[np.triu_indices(statistics.dim)] = statistics.gram.packed
    gram += np.triu(gram, 1).T
    places = np.searchsorted(solution.class_names, statistics.class_names)
    fitted = 2 * (statistics.cross * weights[:, places]).sum() - (weights * (gram @ weights)).sum()
    return float(1.0 - fitted / statistics.sample_count)


def stand_out(residuals: Vector, apart: float) -> NDArray[np.bool_]:
    """Which clients fit badly enough to be subtracted, (clients,)."""
    if len(residuals) < 2:
        return np.zeros(len(residuals), np.bool_)
    mixture = GaussianMixture(2, random_state=0).fit(residuals[:, None])
    means = mixture.means_.ravel()
    if means.max() < apart * means.min():
        return np.zeros(len(residuals), np.bool_)
    in_larger: NDArray[np.bool_] = mixture.predict(residuals[:, None]) == means.argmax()
    return in_larger


def run(task: Task, settings: Settings) -> Result:
    """One round; the server subtracts clients whose labels fit badly."""
    encoder, cost = safle.shared_encoder(task, settings)
    statistics, size = safle.count_clients(task, encoder)
    joint = safle.solve_by(settings, statistics, head="least-squares")
    residuals = [residual(count(encoder, x, y), joint, encoder) for x, y in task.clients()]
    bad = stand_out(np.array(residuals), settings.apart)
    if bad.any():
        leaving = [task.holders[client] for client in np.flatnonzero(bad)]
        statistics = statistics - safle.count_clients(replace(task, parts=leaving), encoder)[0]
    model = Model.of(encoder, safle.solve_by(settings, statistics))
    facts = {"taken_back": int(bad.sum())}
    content = model.to_bytes()
    received = len(encoder.to_bytes()) + len(content)
    return Result(model, content, bytes_up=size + cost, bytes_down=received, facts=facts)


METHOD = Method(
    "safle-trimmed", "safle's linear, trimmed (ours)", "analytic", run, Settings(), invariant=False
)
