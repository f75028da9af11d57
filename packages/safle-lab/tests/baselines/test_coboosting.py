"""Co-Boosting: what is invented, how heads are weighed by it, and what is left to distil."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

from safle_lab.baselines import Task, coboosting

torch = pytest.importorskip("torch", reason="heads are trained with torch")
from safle_lab.baselines.heads import forward  # noqa: E402

pytestmark = pytest.mark.slow

CLASSES, DIM = 3, 7


@pytest.fixture
def task(task) -> Task:
    """With features as behind a rectifier."""
    return replace(task, features=np.maximum(task.features, 0))


@pytest.fixture
def heads():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, CLASSES, size, generator=generator) for size in (DIM, 1)]


def test_a_weighed_ensemble_of_linear_heads_is_one_head(task, heads):
    weights = torch.tensor([0.1, 0.0, 0.7, 0.4])
    inputs = torch.from_numpy(task.features).T[None]

    merged = forward(coboosting.merge(heads, weights), inputs)[0]

    votes = forward(heads, inputs.expand(4, -1, -1))[0]
    assert torch.allclose(merged[0], (weights[:, None, None] * votes).sum(dim=0), atol=1e-5)


def test_samples_are_sought_that_are_hard_and_on_which_heads_disagree(task, heads):
    ensemble, server = ([own[at : at + 1] for own in heads] for at in (0, 1))
    features, classes = torch.from_numpy(task.features), torch.from_numpy(task.labels)

    found = coboosting.hardness(features, classes, ensemble, server, 0.5)

    taught, own = (
        (task.features @ weights[0].numpy().T + bias[0].numpy().T)
        for weights, bias in (ensemble, server)
    )
    losses = -log_softmax(taught, axis=1)[np.arange(240), task.labels]
    right, guess = log_softmax(taught / 3, axis=1), log_softmax(own / 3, axis=1)
    apart = (np.exp(right) * (right - guess)).sum(axis=1)
    wanted = ((1 - np.exp(-losses)) * losses - 0.5 * apart).mean()
    assert float(found) == pytest.approx(wanted, rel=1e-4)


def test_invented_features_look_like_the_datas_and_fit_their_classes(task, heads):
    head = [own[:1] for own in heads]
    idle, busy = (
        coboosting.Inventor(task, coboosting.Settings(invented=200, inventing=steps, noise=8))
        for steps in (1, 100)
    )

    features, classes = busy.invent(head, head)

    assert features.shape == (200, DIM)
    assert (features.numpy() >= task.features.min(axis=0)).all()
    assert np.allclose(features.mean(dim=0), task.features.mean(axis=0), atol=0.5)
    untrained = coboosting.hardness(*idle.invent(head, head), head, head, 0.0)
    assert coboosting.hardness(features, classes, head, head, 0.0) < 0.9 * untrained


def test_weights_step_by_the_sign_and_a_head_that_is_wrong_loses(task):
    truth = torch.eye(CLASSES)[torch.from_numpy(task.labels)]
    features = torch.from_numpy(task.features)
    right = torch.linalg.lstsq(features, truth).solution.T
    local = [torch.stack([right, -right]), torch.zeros(2, CLASSES, 1)]

    found = coboosting.adjust(
        local, torch.tensor([0.5, 0.5]), features, torch.from_numpy(task.labels), 0.1
    )

    assert found.tolist() == pytest.approx([0.6, 0.4])
    again = coboosting.adjust(local, found, features, torch.from_numpy(task.labels), 0.9)
    assert again.tolist() == [1.0, 0.0]
