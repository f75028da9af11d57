"""FedKD: public samples, weighed votes, and the head that learns from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safle_lab.baselines import METHODS, fedkd
from safle_lab.baselines.base import predict

torch = pytest.importorskip("torch", reason="iterative methods need torch")
from safle_lab.baselines.heads import HeadModel  # noqa: E402

pytestmark = pytest.mark.slow

CLASSES = 3


def test_public_samples_belong_to_nobody(task):
    left, public = fedkd.set_aside(task, 0.25)

    held = np.concatenate(left.holders)
    assert len(held) + len(public) == len(task.labels)
    assert 0.15 < len(public) / len(task.labels) < 0.35
    everything = np.sort(np.concatenate([task.features[held], public]), axis=0)
    assert np.array_equal(everything, np.sort(task.features, axis=0))


def test_a_vote_counts_as_much_as_the_clients_share_of_the_class():
    votes = np.array([[[0.9, 0.1]], [[0.2, 0.8]]], np.float32)
    counts = np.array([[3.0, 0.0], [1.0, 5.0]])

    (found,) = fedkd.weigh_votes(votes, counts)

    expected = np.array([0.75 * 0.9 + 0.25 * 0.2, 0.8])
    assert found == pytest.approx(expected / expected.sum())


def test_the_servers_head_learns_from_the_votes(task):
    """Targets that are a head's own probabilities give that head's predictions."""
    settings = METHODS["fedkd"].settings({"batch": 40, "distilling_rate": 0.2})
    weights = np.random.default_rng(0).normal(size=(7, CLASSES))
    scores = np.exp(task.features @ weights)
    targets = (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)

    head = HeadModel(fedkd.distil(task.features, targets, settings, seed=0))

    assert (predict(head, task.features) == targets.argmax(axis=1)).mean() > 0.95


def test_the_servers_head_has_a_rate_of_its_own(task):
    """Long features, as a backbone's are: the clients' rate would make it diverge."""
    long = replace(task, features=20 * task.features)
    long = replace(long, watched=(long.features, long.labels))

    def right(rate):
        return METHODS["fedkd"](long, batch=8, rate=0.1, distilling_rate=rate).curve[0].accuracy

    assert right(0.0003) > 0.6
    assert right(0.0003) > right(0.1)
