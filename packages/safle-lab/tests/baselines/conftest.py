"""Data that several methods are tried on, and who holds it."""

from __future__ import annotations

import numpy as np
import pytest

from safle_lab.baselines import Task
from safle_lab.label_noise import with_noise
from safle_lab.partitions import partition

CLASSES = 4


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    labels = generator.integers(0, CLASSES, 600)
    centres = generator.normal(size=(CLASSES, 12))
    features = centres[labels] + 0.8 * generator.normal(size=(600, 12))
    return np.abs(features).astype(np.float32), labels


@pytest.fixture(scope="module")
def partitions(blobs) -> dict[str, list[np.ndarray]]:
    labels = blobs[1]

    def generator():
        return np.random.default_rng(1)

    return {
        "pooled": [np.arange(len(labels))],
        "skewed": partition(labels, "alpha=0.1", clients=9, generator=generator()),
        "sharded": partition(labels, "shards=2", clients=15, generator=generator()),
        "many": partition(labels, "iid", clients=150, generator=generator()),
        "reordered": partition(labels, "iid", clients=150, generator=generator())[::-1],
    }


@pytest.fixture(scope="module")
def task() -> Task:
    generator = np.random.default_rng(2)
    labels = generator.integers(0, 3, 240)
    features = generator.normal(size=(3, 7))[labels] + generator.normal(size=(240, 7))
    parts = partition(labels, "alpha=0.3", clients=6, generator=np.random.default_rng(0))
    everything = features.astype(np.float32), labels
    return Task(*everything, parts, 3, seed=1, watched=everything)


@pytest.fixture(scope="module")
def noisy_task() -> Task:
    """Twelve clients with every class; the last four have three labels in four wrong."""
    generator = np.random.default_rng(2)
    truth = generator.integers(0, 3, 720)
    features = 2.5 * generator.normal(size=(3, 7))[truth] + generator.normal(size=(720, 7))
    parts = partition(truth, "iid", clients=12, generator=generator)
    labels = truth.copy()
    for part in parts[8:]:
        own = {"kind": "symmetric", "rate": 0.75, "class_count": 3}
        labels[part] = with_noise(truth[part], generator=generator, **own)
    features = features.astype(np.float32)
    return Task(features, labels, parts, 3, seed=1, watched=(features, truth))
