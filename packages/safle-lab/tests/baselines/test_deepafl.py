"""DeepAFL: its sandwiched problem, and what layers are worth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from safle_lab.baselines import METHODS, Task
from safle_lab.baselines.base import predict
from safle_lab.baselines.deepafl import DRAWS, draw_gaussian, draw_uniform, sandwiched

CLASSES = 4


def test_deepafl_does_not_depend_on_the_partition(blobs, partitions):
    results = {
        kind: METHODS["deepafl"](Task(*blobs, parts, CLASSES), layers=3, width=32)
        for kind, parts in partitions.items()
    }

    pooled = results.pop("pooled")
    for result in results.values():
        assert np.allclose(result.model.classifier, pooled.model.classifier, atol=1e-3)
        for ours, theirs in zip(result.model.layers, pooled.model.layers, strict=True):
            # Singular vectors may change signs; their products may not.
            assert np.allclose(np.matmul(*ours[1]), np.matmul(*theirs[1]), atol=1e-3)
        agreement = predict(result.model, blobs[0]) == predict(pooled.model, blobs[0])
        assert agreement.mean() > 0.998
    assert pooled.rounds == 7


def test_deepafl_layers_lower_the_training_error(blobs):
    watched = Task(*blobs, [np.arange(600)], CLASSES, watched=blobs)

    curve = METHODS["deepafl"](watched, layers=6, width=48).curve

    assert [point.rounds for point in curve] == [1, 3, 5, 7, 9, 11, 13]
    assert curve[-1].accuracy > curve[0].accuracy
    assert all(a.bytes_per_client < b.bytes_per_client for a, b in pairwise(curve))


def test_the_sandwiched_problem_is_solved():
    generator = np.random.default_rng(0)
    hidden, weights = generator.normal(size=(40, 5)), generator.normal(size=(6, 3))
    residual, strength = generator.normal(size=(40, 3)), 0.3

    omega = np.matmul(*sandwiched(hidden.T @ hidden, hidden.T @ residual, weights, strength))

    # vec(F Omega W) = kron(F, W') vec(Omega), rows first: an ordinary ridge problem.
    design = np.kron(hidden, weights.T)
    normal = design.T @ design + strength * np.eye(30)
    expected = np.linalg.solve(normal, design.T @ residual.ravel()).reshape(5, 6)
    assert np.allclose(omega, expected, atol=1e-10)


def test_random_layers_begin_as_ours_or_as_the_authors(blobs):
    """The authors' program takes torch's linear layers as they come."""
    generator = np.random.default_rng(0)
    ours, theirs = draw_gaussian(generator, 400, 300), draw_uniform(generator, 400, 300)

    assert not ours.biases.any()
    assert ours.weights.std() == pytest.approx(1 / 20, rel=0.01)
    for drawn in theirs:
        assert 0.99 / 20 < np.abs(drawn).max() <= 1 / 20
        assert drawn.std() == pytest.approx(1 / 20 / np.sqrt(3), rel=0.1)
    task = Task(*blobs, [np.arange(600)], CLASSES, watched=blobs)
    settings = {"layers": 2, "width": 64, "scale": 1.0}
    found = [METHODS["deepafl"](task, **settings, initialisation=how) for how in DRAWS]
    assert found[0].digest != found[1].digest
    assert min(task.accuracy(one.model) for one in found) > 0.8
