"""Clients that fit badly are taken back, to the byte."""

from __future__ import annotations

import numpy as np
import pytest

from safle import LinearEncoder, Model, count, solve
from safle_lab.baselines import METHODS, Task
from safle_lab.baselines.trimmed import residual, stand_out
from safle_lab.partitions import partition

CLASSES = 4


def test_a_residual_is_read_off_statistics(blobs):
    features, labels = blobs
    encoder = LinearEncoder(features.mean(axis=0), features.std(axis=0))
    solution = solve(count(encoder, features, labels), head="least-squares")
    few = labels[:90] < 2

    found = residual(count(encoder, features[:90][few], labels[:90][few]), solution, encoder)

    scores = Model.of(encoder, solution).decision_function(features[:90][few])
    squares = (scores - np.eye(CLASSES)[labels[:90][few]]) ** 2
    assert found == pytest.approx(squares.sum(axis=1).mean(), rel=1e-5)


def test_stand_out_finds_clients_that_fit_far_worse():
    found = stand_out(np.array([0.5, 1.0, 0.52, 0.49, 0.98]), apart=4 / 3)
    assert found.tolist() == [False, True, False, False, True]
    assert not stand_out(np.array([0.5, 0.54, 0.52, 0.49, 0.53]), apart=4 / 3).any()


def test_clients_with_wrong_labels_are_taken_back_to_the_byte(blobs):
    """The model is that of a federation which the noisy clients never were in."""
    features, labels = blobs
    parts = partition(labels, "iid", clients=10, generator=np.random.default_rng(0))
    wrong = labels.copy()
    for part in parts[7:]:
        wrong[part] = (labels[part] + 1 + part % (CLASSES - 1)) % CLASSES
    given = {"calibration": "range"}

    trimmed = METHODS["safle-trimmed"](Task(features, wrong, parts, CLASSES), **given)
    without = METHODS["safle-trimmed"](Task(features, wrong, parts[:7], CLASSES), **given)
    clean = METHODS["safle-trimmed"](Task(*blobs, parts, CLASSES), **given)

    assert trimmed.facts == {"taken_back": 3}
    assert trimmed.model.to_bytes() == without.model.to_bytes()
    assert clean.facts == without.facts == {"taken_back": 0}
