"""FedCGS is linear discriminant analysis of everybody's samples."""

from __future__ import annotations

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from safle_lab.baselines import METHODS, Task
from safle_lab.baselines.base import predict

CLASSES = 4


def test_fedcgs_is_linear_discriminant_analysis(blobs, partitions):
    features, labels = blobs
    result = METHODS["fedcgs"](Task(*blobs, partitions["skewed"], CLASSES), shrinkage=0.0)

    reference = LinearDiscriminantAnalysis(solver="lsqr").fit(features.astype(np.float64), labels)
    assert np.array_equal(predict(result.model, features), reference.predict(features))


def test_a_class_that_nobody_holds_is_never_predicted(blobs):
    features, labels = blobs
    task = Task(features, labels, [np.arange(600)], CLASSES + 1)

    assert predict(METHODS["fedcgs"](task).model, features).max() < CLASSES
