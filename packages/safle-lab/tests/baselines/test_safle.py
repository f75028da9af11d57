"""SAFLe as a method: the pipeline, and the bytes of its files."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Model, count, declared_range, make_encoder, solve, write
from safle.encoders.random_features import suits_by_class
from safle_lab.baselines import METHODS, Task
from safle_lab.baselines.base import predict
from safle_lab.baselines.safle import shared_encoder

CLASSES = 4


def test_safle_is_the_pipeline_and_its_bytes_are_those_of_its_files(blobs, partitions, tmp_path):
    features, labels = blobs
    parts = partitions["sharded"]
    task = Task(*blobs, parts, CLASSES, seed=3)
    settings = METHODS["safle"].settings({"buckets": 3})
    result = METHODS["safle"](task, buckets=3)

    encoder, _ = shared_encoder(task, settings)
    pooled = count(encoder, features, labels)
    expected = Model.of(encoder, solve(pooled, head="least-squares"))
    assert result.digest == expected.digest
    sizes = []
    for part in parts:
        write(tmp_path / "client.stats", count(encoder, features[part], labels[part]))
        sizes.append((tmp_path / "client.stats").stat().st_size)
    assert result.facts["statistics_bytes"] == np.mean(sizes)
    assert result.bytes_up == np.mean(sizes) + result.facts["calibration_bytes"]
    encoder.save(tmp_path / "encoder.safetensors")
    expected.save(tmp_path / "model.safetensors")
    received = [tmp_path / f"{name}.safetensors" for name in ("encoder", "model")]
    assert result.bytes_down == sum(path.stat().st_size for path in received)


def test_the_default_counts_by_class_where_the_shipped_one_would():
    """From 20 declared classes on; the lab declares all classes of its data."""
    generator = np.random.default_rng(0)
    labels = np.arange(400) % 20
    features = np.abs(generator.normal(size=(400, 6)) + labels[:, None] % 7).astype(np.float32)
    calibration = declared_range(0, 16, 6)
    settings = METHODS["safle-default"].settings({"calibration": "range"})

    for classes, expected in ((19, False), (20, True)):
        kept = labels < classes
        task = Task(features[kept], labels[kept], [np.arange(kept.sum())], classes)
        shipped = make_encoder(calibration, by_class=suits_by_class(6, classes))
        found, _ = shared_encoder(task, settings)
        assert found.fingerprint == shipped.fingerprint
        assert (found.layout.class_layout is not None) == expected


@pytest.mark.parametrize("bucketing", ["integer", "one-hot", "binary-overlap"])
def test_safle_learns_with_every_bucketing(blobs, bucketing):
    result = METHODS["safle"](
        Task(*blobs, [np.arange(600)], CLASSES), bucketing=bucketing, buckets=4
    )

    assert (predict(result.model, blobs[0]) == blobs[1]).mean() > 0.8
