"""The paper's own figures, top-1 in percent, to be set beside ours.

Its baselines were taken from the AFL and DeepAFL papers: their preprocessing is not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CIFAR10, CIFAR100, TINY = "CIFAR-10", "CIFAR-100", "Tiny-ImageNet"
ITERATIVE = ("FedAvg", "FedProx", "MOON", "FedDyn", "FedNTD")

_ITERATIVE_TABLE: dict[str, dict[str, tuple[float, ...]]] = {
    CIFAR10: {
        "alpha=0.1": (64.02, 64.07, 63.84, 64.77, 64.64),
        "alpha=0.05": (60.52, 60.39, 60.28, 60.35, 61.16),
        "shards=4": (68.47, 68.46, 68.47, 73.50, 70.24),
        "shards=2": (57.81, 57.61, 57.72, 64.07, 58.77),
    },
    CIFAR100: {
        "alpha=0.1": (56.62, 56.45, 56.58, 57.55, 56.60),
        "alpha=0.01": (32.99, 33.37, 33.34, 36.12, 32.59),
        "shards=10": (55.76, 55.80, 55.70, 61.09, 54.69),
        "shards=5": (48.33, 48.29, 48.34, 59.34, 47.00),
    },
    TINY: {
        "alpha=0.1": (46.04, 46.47, 46.21, 47.72, 46.17),
        "alpha=0.01": (32.63, 32.26, 32.38, 35.19, 31.86),
        "shards=10": (39.06, 38.97, 38.79, 41.36, 37.55),
        "shards=5": (29.66, 29.17, 29.24, 35.18, 29.01),
    },
}
_ANALYTIC_TABLE = {
    CIFAR10: {"AFL": 80.75, "DeepAFL": 86.43, "SAFLe": 90.73},
    CIFAR100: {"AFL": 58.56, "DeepAFL": 66.98, "SAFLe": 70.61},
    TINY: {"AFL": 54.67, "DeepAFL": 62.35, "SAFLe": 64.58},
}
_BUCKETS = (2, 8, 14, 20)
_BUCKETING = {
    CIFAR10: {
        "integer": (87.16, 78.15, 67.53, 59.75),
        "one-hot": (87.54, 81.56, 74.43, 68.27),
        "binary-overlap": (88.43, 90.73, 90.03, 89.12),
    },
    CIFAR100: {
        "integer": (67.72, 58.28, 47.75, 40.09),
        "one-hot": (68.22, 61.66, 54.65, 48.77),
        "binary-overlap": (68.82, 70.61, 70.12, 69.35),
    },
    TINY: {
        "integer": (61.38, 52.10, 41.89, 34.70),
        "one-hot": (61.78, 55.70, 48.66, 43.22),
        "binary-overlap": (62.43, 64.58, 64.12, 63.93),
    },
}
_BACKBONES = {
    "ResNet-18": {CIFAR10: (80.75, 90.73), CIFAR100: (58.56, 70.61), TINY: (54.67, 64.58)},
    "VGG11": {CIFAR10: (82.72, 87.50), CIFAR100: (60.43, 62.68), TINY: (54.73, 58.34)},
    "ViT-B-16": {CIFAR10: (93.92, 95.31), CIFAR100: (75.45, 77.83), TINY: (82.02, 82.71)},
}


class Paper:
    """The paper's figures for one of its data sets; for any other it has none."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.dataset = _recognised(data["classes"], str(data["name"]) + str(data["source"]))

    def table1(self, method: str, scenario: str) -> float | None:
        """Accuracy of a method in a scenario, in percent."""
        if self.dataset is None:
            return None
        if method in ITERATIVE:
            line = _ITERATIVE_TABLE[self.dataset].get(scenario)
            return None if line is None else line[ITERATIVE.index(method)]
        return _ANALYTIC_TABLE[self.dataset].get(method)

    def bucketing(self, strategy: str, buckets: int) -> float | None:
        """Accuracy of a strategy with so many buckets, in percent."""
        if self.dataset is None or buckets not in _BUCKETS:
            return None
        return _BUCKETING[self.dataset][strategy][_BUCKETS.index(buckets)]

    def backbones(self) -> list[tuple[str, float, float]]:
        """Backbone, AFL and SAFLe, in percent."""
        if self.dataset is None:
            return []
        return [(name, *figures[self.dataset]) for name, figures in _BACKBONES.items()]


def _recognised(classes: Sequence[str], words: str) -> str | None:
    """Which of the paper's data sets these classes are of."""
    if len(classes) == 10 and {"airplane", "frog", "truck"} <= set(classes):
        return CIFAR10
    if len(classes) == 100 and "cifar" in words.lower():
        return CIFAR100
    if len(classes) == 200 and "tiny" in words.lower():
        return TINY
    return None
