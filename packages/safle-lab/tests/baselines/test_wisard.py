"""Federated WiSARD counts and bleaches as its definition says."""

from __future__ import annotations

import numpy as np

from safle_lab.baselines import METHODS, Task
from safle_lab.baselines.base import predict
from safle_lab.baselines.wisard import Discriminators, counters_of

CLASSES = 4


def test_wisard_counts_and_bleaches_as_its_definition_says(blobs):
    features, labels = blobs
    task = Task(*blobs, [np.arange(600)], CLASSES)
    result = METHODS["wisard"](task, buckets=3, group_size=3)
    assert isinstance(result.model, Discriminators)
    encoder = result.model.encoder
    symbols = encoder.encode(features).symbols

    table = {}
    for row, label in zip(symbols, labels, strict=True):
        for node, address in enumerate(row):
            key = (int(label), node, int(address))
            table[key] = table.get(key, 0) + 1
    counters = counters_of(encoder, features, labels, CLASSES)
    for (label, node, address), times in table.items():
        assert counters[encoder.layout.bases[node] + address, label] == times
    assert counters.sum() == symbols.size

    for row, predicted in zip(symbols[:50], predict(result.model, features[:50]), strict=True):
        scores = [
            sum(table.get((label, node, int(address)), 0) > 0 for node, address in enumerate(row))
            for label in range(CLASSES)
        ]
        if scores.count(max(scores)) == 1:
            assert predicted == scores.index(max(scores))
