"""AFL: ridge regression in one round; the server merges one client after the other by a law.

He, Tong, Fang, Sun, Zeng, Li, Chen, Zhuang: "AFL: A Single-Round Analytic Approach for
Federated Learning with Pre-trained Models", CVPR 2025.

Client u sends ``C_u = X_u'X_u + gamma I`` and ``W_u = inverse(C_u) X_u'Y_u``. Two merge by
the Absolute Aggregation law, with R = inverse(C):

    W = (I - R_u C_v + R_u C_v inverse(C_u + C_v) C_v) W_u + the same with u and v swapped

and C = C_u + C_v. After K clients W is the ridge solution at K gamma. The server removes this
intermediary at the end: ``W = pinv(C - K gamma I) C W``. So gamma changes only the law's
rounding errors; a larger gamma keeps them smaller.

Features are rounded to a grid that all clients share (`GRID_BITS` below the largest
magnitude), so ``C`` is a matrix of integers that float64 adds without rounding, and
``C W = X'Y`` is one too: rounding it removes the rounding errors of the law's solves, and the
model has the same bytes for any partition and order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from threadpoolctl import threadpool_limits

from safle.errors import InvalidInput, SolveError
from safle_lab.baselines.base import (
    Features,
    LinearModel,
    Method,
    MethodSettings,
    Positive,
    Result,
    Task,
    message,
    one_hot,
)

Matrix = NDArray[np.float64]
GRID_BITS = 16
MOST_SAMPLES = 1 << (53 - 2 * GRID_BITS)
"""Sums of products of two 16-bit integers are exact in float64 up to this many samples."""


class Settings(MethodSettings, frozen=True):
    """The settings of AFL: the intermediary gamma, and whether it is removed at the end."""

    gamma: Positive = 1000.0
    removal: bool = True


@dataclass(frozen=True)
class Upload:
    """What a client sends, and what merging two uploads gives.

    Attributes
    ----------
    gram : C, float64, (feature_dim, feature_dim), in squared grid steps
    weights : W, float64, (feature_dim, class_count)
    clients : number of clients, each with one gamma on the gram's diagonal
    """

    gram: Matrix
    weights: Matrix
    clients: int = 1

    @property
    def size(self) -> int:
        """Bytes on the wire: the upper triangle and the weights."""
        triangle = self.gram[np.triu_indices(len(self.gram))]
        return len(message({"gram": triangle, "weights": self.weights}))


def grid_step(features: Features) -> float:
    """A power of two; all features are rounded to multiples of it."""
    largest = max(float(np.abs(features).max(initial=0.0)), 1e-30)
    return float(2.0 ** (np.ceil(np.log2(largest)) - GRID_BITS))


def upload(codes: Matrix, targets: Matrix, intermediary: float) -> Upload:
    """One client's message from features in grid steps, (samples, feature_dim), and Y."""
    gram = codes.T @ codes
    gram[np.diag_indices(len(gram))] += intermediary
    return Upload(gram, cho_solve(cho_factor(gram), codes.T @ targets))


def absolute_aggregation(uploads: Iterator[Upload]) -> Upload:
    """All uploads, at least one, merged by the law, one after the other."""
    merged = next(uploads)
    factor = cho_factor(merged.gram)
    for new in uploads:
        gram = merged.gram + new.gram
        joint = cho_factor(gram)
        weights = _law_term(merged.weights, factor, new.gram, joint)
        weights += _law_term(new.weights, cho_factor(new.gram), merged.gram, joint)
        merged = Upload(gram, weights, merged.clients + new.clients)
        factor = joint
    return merged


def _law_term(weights: Matrix, own_factor: Matrix, other_gram: Matrix, joint: Matrix) -> Matrix:
    """``(I - R_u C_v + R_u C_v inverse(C_u + C_v) C_v) W_u`` with R_u as a factor."""
    moved = other_gram @ weights
    moved = moved - other_gram @ cho_solve(joint, moved)
    return weights - cho_solve(own_factor, moved)


def remove_intermediary(merged: Upload, intermediary: float) -> tuple[Matrix, float]:
    """The pooled least-squares weights, and how far ``C W`` was from integers."""
    cross = merged.gram @ merged.weights
    exact = np.rint(cross)
    error = float(np.abs(cross - exact).max())
    if not error < 0.4:
        raise SolveError(
            f"the merged C W is {error:.2g} off the integers it should consist of; use a "
            "larger gamma"
        )
    gram = merged.gram.copy()
    gram[np.diag_indices(len(gram))] -= merged.clients * intermediary
    values, vectors = eigh(gram)
    kept = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)
    part = vectors[:, kept]
    return part @ ((part.T @ exact) / values[kept, None]), error


def run(task: Task, settings: Settings) -> Result:
    """One round of AFL."""
    if len(task.labels) > MOST_SAMPLES:
        raise InvalidInput(f"{len(task.labels)} samples; expected at most {MOST_SAMPLES}")
    step = grid_step(task.features)
    intermediary = settings.gamma / step**2
    sizes: list[int] = []

    def uploads() -> Iterator[Upload]:
        for features, labels in task.clients(reporting=1.0):
            codes = np.rint(features.astype(np.float64) / step)
            sent = upload(codes, one_hot(labels, task.class_count), intermediary)
            sizes.append(sent.size)
            yield sent

    # One thread: the last bits of a threaded product may depend on the machine's other work.
    with threadpool_limits(1):
        merged = absolute_aggregation(uploads())
        weights = merged.weights
        error = float("nan")
        if settings.removal:
            weights, error = remove_intermediary(merged, intermediary)
    model = LinearModel(weights / step)
    down = message({"weights": model.weights})
    return Result(
        model,
        down,
        bytes_up=float(np.mean(sizes)),
        bytes_down=len(down),
        facts={"distance_from_integers": error},
    )


METHOD = Method("afl", "AFL", "analytic", run, Settings(), invariant=True)
