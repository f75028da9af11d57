"""All methods: what each must do, whatever its equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safle.errors import InvalidInput, SettingsError
from safle_lab.baselines import METHODS, Task

ROUNDS = {"rounds": 8, "epochs": 2, "batch": 8, "rate": 0.05}
SMALL = {
    **{name: ROUNDS for name, method in METHODS.items() if method.kind == "iterative"},
    "co-boosting": {"turns": 5, "invented": 32, "inventing": 10, "noise": 8, "batch": 8},
    "deepafl": {"layers": 2, "width": 32},
    "fedkd": {"batch": 8, "rate": 0.05, "distilling_rate": 0.05},
}
"""Settings with which a method is done in a second."""
BLOB_CLASSES = 4


@pytest.mark.parametrize("name", METHODS)
def test_a_method_learns_and_repeats_itself_to_the_byte(task, name):
    pytest.importorskip("torch", reason="iterative methods need torch")
    means = [task.features[task.labels == own].mean(axis=0) for own in range(task.class_count)]
    task = replace(task, texts=np.array(means)[:, None])

    found, again = (METHODS[name](task, **SMALL.get(name, {})) for _ in range(2))

    assert found.digest == again.digest
    assert task.accuracy(found.model) > (0.4 if name == "local" else 0.6)
    assert found.curve[-1].accuracy == task.accuracy(found.model)
    assert found.curve[-1].bytes_per_client == found.bytes_up + found.bytes_down
    assert found.curve[-1].rounds == found.rounds
    if METHODS[name].kind != "iterative" and name != "deepafl":
        assert found.rounds == (0 if name == "local" else 1)


@pytest.mark.parametrize("name", ["afl", "safle", "safle-default", "wisard"])
def test_models_are_the_same_bytes_for_every_partition(blobs, partitions, name):
    digests = {METHODS[name](Task(*blobs, own, BLOB_CLASSES)).digest for own in partitions.values()}

    assert len(digests) == 1


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        ("afl", {"gama": 1}, r"'gama'; expected .*gamma"),
        ("afl", {"gamma": "much"}, "gamma is 'much'; expected"),
        ("safle", {"calibration": "guess"}, "calibration is 'guess'; expected"),
        ("safle-trimmed", {"columns": "embedding"}, "columns is 'embedding'; expected"),
        ("wisard", {"columns": "linear"}, "columns is 'linear'; expected"),
        ("fedavg", {"participation": 0.0}, r"participation is 0\.0; expected"),
        ("fedavg", {"hidden": -1}, "hidden is -1; expected"),
        ("fedcorr", {"rounds": 10, "iterations": 10}, "10 iterations of 10 rounds"),
        ("co-boosting", {"hidden": 4}, "hidden is 4; expected"),
        ("tofa", {"power": -1.0}, r"power is -1\.0; expected"),
    ],
)
def test_settings_are_checked(name, wrong, complaint):
    with pytest.raises(SettingsError, match=complaint):
        METHODS[name].settings(wrong)


def test_tasks_are_checked(blobs):
    features, labels = blobs
    with pytest.raises(InvalidInput, match="no client holds any sample"):
        Task(features, labels, [np.arange(0)], BLOB_CLASSES)
    with pytest.raises(InvalidInput, match="below 3"):
        Task(features, labels, [np.arange(600)], 3)
    with pytest.raises(InvalidInput, match="expected \\(samples, features\\)"):
        Task(features[:5], labels, [np.arange(5)], BLOB_CLASSES)
    with pytest.raises(InvalidInput, match="as many classes and features"):
        Task(features, labels, [np.arange(600)], BLOB_CLASSES, texts=features[:3, None])
