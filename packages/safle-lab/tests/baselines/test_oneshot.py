"""Heads trained alone: averaged, asked for votes, or left alone."""

from __future__ import annotations

import numpy as np
import pytest

from safle_lab.baselines import METHODS
from safle_lab.baselines.base import predict

torch = pytest.importorskip("torch", reason="iterative methods need torch")

pytestmark = pytest.mark.slow

CLASSES = 3


def test_one_shot_methods_send_one_head(task):
    average = METHODS["one-shot-average"](task, batch=8, rate=0.05)
    ensemble = METHODS["one-shot-ensemble"](task, batch=8, rate=0.05)

    assert average.bytes_up == ensemble.bytes_up == average.bytes_down
    assert ensemble.bytes_down == len(task.holders) * ensemble.bytes_up
    votes = np.zeros((len(task.features), CLASSES))
    for head, share in zip(ensemble.model.heads, ensemble.model.shares, strict=True):
        weights, bias = (parameter[0].numpy() for parameter in head.parameters)
        scores = np.exp(task.features @ weights.T + bias.T)
        votes += share * scores / scores.sum(axis=1, keepdims=True)
    assert np.array_equal(predict(ensemble.model, task.features), votes.argmax(axis=1))


def test_local_heads_are_each_clients_own_and_nothing_is_sent(task):
    alone = METHODS["local"](task, batch=8, rate=0.05)
    together = METHODS["one-shot-ensemble"](task, batch=8, rate=0.05)

    assert (alone.bytes_up, alone.bytes_down) == (0.0, 0.0)
    features, labels = task.watched
    members = alone.model.members
    assert len(members) == len(task.holders)
    own = [(predict(one, features) == labels).mean() for one in members]
    assert task.accuracy(alone.model) == pytest.approx(np.mean(own))
    assert alone.curve[0].accuracy == task.accuracy(alone.model) < task.accuracy(together.model)
    # In the order of the holders: a client knows its own samples best.
    for part, one in zip(task.holders, members, strict=True):
        assert (predict(one, features[part]) == labels[part]).mean() >= 0.5
