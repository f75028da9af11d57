"""DeepAFL: layers of random features, each fitted in closed form, two rounds per layer.

"DeepAFL: Deep Analytic Federated Learning", 2025.

``X_0 = tanh(x A)`` with a random A. The paper leaves its distribution open, and its scale
decides how far the tanh saturates: here it is Gaussian, and ``scale`` is chosen. The authors'
program (tangent-heng/DeepAFL) takes torch's linear layers as they come, weights and biases
uniform within ``1 / sqrt(inputs)``: ``initialisation = "uniform"`` with ``scale = 1``.

At layer t, round one: clients send ``X_t'X_t`` and ``X_t'Y``, the server returns the ridge
classifier W_t. Round two: with ``F = gelu(X_t B_t)``, B_t random, and the residual ``R = Y - X_t
W_t``, clients send ``F'F`` and ``F'R``; the server solves the sandwiched least squares

    min ||R - F Omega W_t||^2 + omega ||Omega||^2

by eigendecomposing ``F'F = U diag(s) U'`` and ``W_t W_t' = V diag(t) V'``: in those bases
``Omega_ij = (U' F'R W_t' V)_ij / (s_i t_j + omega)``. Where t_j = 0, W_t'V_j is zero as well:
at most as many columns as classes count, and Omega is the product of a tall and a wide
matrix, which is how it is applied here. (It is sent whole, as in the paper.) Then
``X_{t+1} = X_t + F Omega``. A last round fits the classifier of the last layer: 2T + 1 rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, svd
from scipy.special import erf
from sklearn.metrics import accuracy_score

from safle_lab.baselines.base import (
    Count,
    Features,
    Method,
    MethodSettings,
    Point,
    Positive,
    Result,
    Task,
    message,
    one_hot,
)

Matrix = NDArray[np.float64]
Transform = tuple[Features, Features]
"""Omega as a tall and a wide matrix, float32."""
BATCH = 8_192
BLOCK = 256
ONE = np.float32(1)


class Settings(MethodSettings, frozen=True):
    """The settings of DeepAFL, with the names of the equations.

    Attributes
    ----------
    scale : of the first random layer
    initialisation : of random layers: "gaussian", without biases, or "uniform", with them
    """

    layers: Count = 20
    width: Count = 1024
    ridge: Positive = 1.0
    omega: Positive = 0.05
    scale: Positive = 0.1
    initialisation: Literal["gaussian", "uniform"] = "gaussian"


class Projection(NamedTuple):
    """A random layer, float32: weights, (inputs, width), and biases, (width,)."""

    weights: Features
    biases: Features

    def __call__(self, state: Features) -> Features:
        """``X B + b``, (samples, width)."""
        hidden: Features = state @ self.weights
        hidden += self.biases
        return hidden


@dataclass(frozen=True)
class DeepModel:
    """Random layers, fitted transforms and the last classifier.

    Attributes
    ----------
    entry : A
    layers : B_t, (width, width), and Omega_t
    classifier : W_T, float32, (width, class_count)
    """

    entry: Projection
    layers: tuple[tuple[Projection, Transform], ...]
    classifier: Features

    def decision_function(self, features: Features) -> Features:
        """Scores, (samples, class_count)."""
        starts = range(0, max(len(features), 1), BATCH)
        return np.concatenate([self._scores(features[start : start + BATCH]) for start in starts])

    def _scores(self, features: Features) -> Features:
        *_, last = self.states(features)
        scores: Features = last @ self.classifier
        return scores

    def states(self, features: Features) -> Iterator[Features]:
        """``X_0`` to ``X_T`` of some samples, each (samples, width)."""
        state = np.tanh(self.entry(features))
        yield state
        for projection, transform in self.layers:
            state = state + transformed(activated(state, projection), transform)
            yield state


def activated(state: Features, projection: Projection) -> Features:
    """``gelu(X B)``, (samples, width)."""
    hidden = projection(state)
    # Block by block, in place: fresh memory for every step would take longer than the sums.
    for start in range(0, len(hidden), BLOCK):
        block = hidden[start : start + BLOCK]
        block *= 0.5 * (1.0 + erf(block * np.float32(np.sqrt(0.5))))
    return hidden


def transformed(hidden: Features, transform: Transform) -> Features:
    """``F Omega``, (samples, width)."""
    tall, wide = transform
    narrow: Features = hidden @ tall
    product: Features = narrow @ wide
    return product


def classifier(gram: Matrix, cross: Matrix, ridge: float) -> Matrix:
    """``inverse(C + ridge I) M``."""
    return cho_solve(cho_factor(gram + ridge * np.eye(len(gram))), cross)


def sandwiched(
    gram: Matrix, cross: Matrix, weights: Matrix, strength: float
) -> tuple[Matrix, Matrix]:
    """Omega of ``min ||R - F Omega W||^2 + strength ||Omega||^2``, as a tall and a wide matrix."""
    outer, left = eigh(gram)
    right, inner, _ = svd(weights, full_matrices=False)
    # Rounding leaves small negative numbers where there should be zeros.
    scale = np.maximum(outer, 0.0)[:, None] * inner**2 + strength
    return left @ ((left.T @ (cross @ (weights.T @ right))) / scale), right.T


class _Federation:
    """The clients' hidden states, one client after the other, and sums over them."""

    def __init__(self, task: Task, entry: Projection) -> None:
        order = np.concatenate(task.holders)
        self.ends = np.cumsum([len(part) for part in task.holders])
        self.targets = one_hot(task.labels[order], task.class_count).astype(np.float32)
        self.state: Features = np.tanh(entry(task.features[order]))
        self.sent: list[int] = []

    def sums(self, inputs: Features, targets: Features) -> tuple[Matrix, Matrix]:
        """Every client's ``F'F`` and ``F'T``, added up at the server in float64."""
        width, classes = inputs.shape[1], targets.shape[1]
        gram, cross = np.zeros((width, width)), np.zeros((width, classes))
        upper = np.triu_indices(width)
        for begin, end in pairwise([0, *self.ends]):
            part = inputs[begin:end]
            part_gram = part.T @ part
            part_cross = part.T @ targets[begin:end]
            gram += part_gram
            cross += part_cross
            if begin == 0:
                # All messages have the same size: dense matrices do not compress.
                self.sent.append(len(message({"gram": part_gram[upper], "cross": part_cross})))
        return gram, cross


def run(task: Task, settings: Settings) -> Result:
    """All 2T + 1 rounds."""
    width, depth = settings.width, settings.layers
    draw = DRAWS[settings.initialisation]
    generator = np.random.default_rng(task.seed)
    entry = draw(generator, task.feature_dim, width, np.float32(settings.scale))
    clients = _Federation(task, entry)
    layers: list[tuple[Projection, Transform]] = []
    readouts: list[Features] = []
    costs: list[float] = []
    down = 0
    for layer in range(depth + 1):
        weights = classifier(*clients.sums(clients.state, clients.targets), settings.ridge)
        readouts.append(weights.astype(np.float32))
        down += len(message({"weights": readouts[-1]}))
        costs.append(float(sum(clients.sent) + down))
        task.progress((layer + 1) / (depth + 1))
        if layer == depth:
            break
        projection = draw(generator, width, width)
        hidden = activated(clients.state, projection)
        residual = clients.targets - clients.state @ readouts[-1]
        tall, wide = sandwiched(*clients.sums(hidden, residual), weights, settings.omega)
        transform = tall.astype(np.float32), wide.astype(np.float32)
        down += len(message({"transform": transform[0] @ transform[1]}))
        clients.state += transformed(hidden, transform)
        layers.append((projection, transform))
    model = DeepModel(entry, tuple(layers), readouts[-1])
    arrays = {f"transform.{number}": tall @ wide for number, (_, (tall, wide)) in enumerate(layers)}
    with task.watch.paused():
        curve = _curve(task, model, readouts, costs)
    return Result(
        model,
        message({**arrays, "classifier": readouts[-1]}),
        bytes_up=sum(clients.sent),
        bytes_down=down,
        rounds=2 * depth + 1,
        curve=curve,
    )


def _curve(
    task: Task, model: DeepModel, readouts: list[Features], costs: list[float]
) -> tuple[Point, ...]:
    """The watched accuracy of every layer's classifier, and what it had cost by then."""
    if task.watched is None:
        return ()
    features, labels = task.watched
    points = []
    for layer, state in enumerate(model.states(features)):
        predicted = np.argmax(state @ readouts[layer], axis=1)
        accuracy = float(accuracy_score(labels, predicted))
        points.append(Point(2 * layer + 1, accuracy, costs[layer]))
    return tuple(points)


def draw_gaussian(
    generator: np.random.Generator, rows: int, columns: int, scale: np.float32 = ONE
) -> Projection:
    """Weights that keep the scale of what they are applied to, and no biases."""
    weights = (generator.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
    return Projection(scale * weights, np.zeros(columns, np.float32))


def draw_uniform(
    generator: np.random.Generator, rows: int, columns: int, scale: np.float32 = ONE
) -> Projection:
    """Weights and biases within 1 / sqrt(rows), as torch's linear layers begin."""
    limit = 1 / np.sqrt(rows)
    drawn = generator.uniform(-limit, limit, (rows + 1, columns)).astype(np.float32)
    return Projection(scale * drawn[:-1], scale * drawn[-1])


DRAWS = {"gaussian": draw_gaussian, "uniform": draw_uniform}
GRID = {"scale": (0.03, 0.1, 0.3, 1.0)}
METHOD = Method("deepafl", "DeepAFL", "analytic", run, Settings(), GRID, invariant=True)
