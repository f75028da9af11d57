"""AFL: the law gives the pooled solution, whoever holds what."""

from __future__ import annotations

import numpy as np
import pytest

from safle.errors import SolveError
from safle_lab.baselines.afl import (
    Upload,
    absolute_aggregation,
    grid_step,
    remove_intermediary,
    upload,
)
from safle_lab.baselines.base import one_hot

CLASSES = 4


def uploads_of(blobs, parts, intermediary):
    features, labels = blobs
    codes = np.rint(features.astype(np.float64) / grid_step(features))
    return [
        upload(codes[part], one_hot(labels[part], CLASSES), intermediary)
        for part in parts
        if len(part)
    ], codes


@pytest.mark.parametrize("kind", ["skewed", "sharded", "many", "reordered"])
def test_the_law_is_pooled_ridge_and_without_the_intermediary_pooled_least_squares(
    blobs, partitions, kind
):
    features, labels = blobs
    gamma = 1.0 / grid_step(features) ** 2
    sent, codes = uploads_of(blobs, partitions[kind], gamma)
    targets = one_hot(labels, CLASSES)

    merged = absolute_aggregation(iter(sent))
    restored, error = remove_intermediary(merged, gamma)

    ridge = np.linalg.solve(
        codes.T @ codes + len(sent) * gamma * np.eye(codes.shape[1]), codes.T @ targets
    )
    pooled = np.linalg.lstsq(codes, targets, rcond=None)[0]
    assert np.abs(merged.weights - ridge).max() <= 1e-10 * np.abs(ridge).max()
    assert np.abs(restored - pooled).max() <= 1e-10 * np.abs(pooled).max()
    assert error < 1e-3


def test_two_clients_merge_by_the_law_as_it_is_written(blobs):
    (u, v), _ = uploads_of(blobs, [np.arange(100), np.arange(100, 600)], 2.0**20)

    merged = absolute_aggregation(iter([u, v]))

    eye, both = np.eye(len(u.gram)), np.linalg.inv(u.gram + v.gram)
    ru, rv = np.linalg.inv(u.gram), np.linalg.inv(v.gram)
    left = eye - ru @ v.gram + ru @ v.gram @ both @ v.gram
    right = eye - rv @ u.gram + rv @ u.gram @ both @ u.gram
    expected = left @ u.weights + right @ v.weights
    assert np.allclose(merged.weights, expected, rtol=1e-8, atol=0)
    assert merged.clients == 2


def test_rounding_that_went_too_far_is_noticed(blobs):
    sent, _ = uploads_of(blobs, [np.arange(600)], 1.0)
    wrong = Upload(sent[0].gram, sent[0].weights * (1 + 1e-4))

    with pytest.raises(SolveError, match="off the integers"):
        remove_intermediary(wrong, 1.0)
