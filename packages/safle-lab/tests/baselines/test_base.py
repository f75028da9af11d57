"""What all methods share: one model for every partition, checked settings and tasks."""

from __future__ import annotations

import numpy as np
import pytest

from safle.errors import InvalidInput, SettingsError
from safle_lab.baselines import METHODS, Task

CLASSES = 4


@pytest.mark.parametrize("name", ["afl", "safle", "safle-default", "wisard"])
def test_models_are_the_same_bytes_for_every_partition(blobs, partitions, name):
    digests = {
        kind: METHODS[name](Task(*blobs, parts, CLASSES)).digest
        for kind, parts in partitions.items()
    }

    assert len(set(digests.values())) == 1


def test_settings_and_tasks_are_checked(blobs):
    features, labels = blobs
    with pytest.raises(SettingsError, match=r"'gama'; expected .*gamma"):
        METHODS["afl"](Task(*blobs, [np.arange(600)], CLASSES), gama=1)
    with pytest.raises(SettingsError, match="gamma is 'much'; expected"):
        METHODS["afl"](Task(*blobs, [np.arange(600)], CLASSES), gamma="much")
    with pytest.raises(SettingsError, match="calibration is 'guess'; expected"):
        METHODS["safle"](Task(*blobs, [np.arange(600)], CLASSES), calibration="guess")
    with pytest.raises(InvalidInput, match="no client holds any sample"):
        Task(features, labels, [np.arange(0)], CLASSES)
    with pytest.raises(InvalidInput, match="below 3"):
        Task(features, labels, [np.arange(600)], 3)
    with pytest.raises(InvalidInput, match="expected \\(samples, features\\)"):
        Task(features[:5], labels, [np.arange(5)], CLASSES)
