"""Federated WiSARD: the same codes, counted per class in RAM nodes, read by bleaching.

Aleksander, Thomas, Bowden: "WISARD: a radical step forward in image recognition", 1984;
bleaching: Grieco, Lima, De Gregorio, França: "Producing pattern examples from 'mental'
images", 2010; summed over clients, as the SAFLe paper's predecessor does.

Node j of class c counts how often address idx_j occurred in class c: the cross matrix
of SAFLe's statistics. A sample's score for a class is the number of its nodes that
counted more than b; b starts at 0 and grows until only one class is left.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from safle import Encoder
from safle_lab.baselines.base import Features, Method, Result, Task, message
from safle_lab.baselines.safle import Coding, shared_encoder

BATCH = 512


class Settings(Coding, frozen=True):
    """The settings: WiSARD's nodes are the paper's tables, which it addresses alike."""

    columns: Literal["embedding"] = "embedding"
    group_size: int | str = 8


@dataclass(frozen=True)
class Discriminators:
    """RAM nodes of all classes.

    Attributes
    ----------
    counters : int64, (code_count, class_count)
    """

    encoder: Encoder
    counters: NDArray[np.int64]

    def decision_function(self, features: Features) -> NDArray[np.int64]:
        """Discriminators' answers at the threshold that decided, (samples, class_count)."""
        batches = [features[start : start + BATCH] for start in range(0, len(features), BATCH)]
        return np.concatenate([self._answers(batch) for batch in batches])

    def _answers(self, features: Features) -> NDArray[np.int64]:
        counts = self.counters[_addresses(self.encoder, features)]
        answers = np.zeros((len(features), self.counters.shape[1]), np.int64)
        undecided = np.arange(len(features))
        threshold = 0
        while len(undecided):
            scores = (counts[undecided] > threshold).sum(axis=1)
            best = scores.max(axis=1, keepdims=True)
            answered = best[:, 0] > 0
            # Where no node counted more than the threshold, the last answer, a tie, is kept.
            answers[undecided[answered]] = scores[answered]
            undecided = undecided[answered & ((scores == best).sum(axis=1) > 1)]
            threshold = max(threshold + 1, int(threshold * 1.25))
        return answers


def _addresses(encoder: Encoder, features: Features) -> NDArray[np.int64]:
    """Columns of the codes, int64, (samples, experts)."""
    return encoder.encode(features).symbols.astype(np.int64) + encoder.layout.bases[:-1]


def counters_of(
    encoder: Encoder, features: Features, labels: NDArray[np.int64], class_count: int
) -> NDArray[np.int64]:
    """One client's counters, int64, (code_count, class_count)."""
    size = encoder.layout.code_count * class_count
    places = _addresses(encoder, features) * class_count + labels[:, None]
    return np.bincount(places.ravel(), minlength=size).reshape(-1, class_count)


def upload(counters: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """What a client sends: rows with any count, in the smallest integers that hold them."""
    rows = np.flatnonzero(counters.any(axis=1))
    most = int(counters.max(initial=0))
    smallest_type = np.min_scalar_type(most)
    return {"rows": rows.astype(np.uint32), "counters": counters[rows].astype(smallest_type)}


def run(task: Task, settings: Settings) -> Result:
    """One round of counters."""
    encoder, cost = shared_encoder(task, settings)
    total = np.zeros((encoder.layout.code_count, task.class_count), np.int64)
    sizes: list[int] = []
    for features, labels in task.clients(reporting=1.0):
        counters = counters_of(encoder, features, labels, task.class_count)
        sizes.append(len(message(upload(counters))))
        total += counters
    down = message(upload(total))
    return Result(
        Discriminators(encoder, total),
        down,
        bytes_up=float(np.mean(sizes)) + cost,
        bytes_down=len(encoder.to_bytes()) + len(down),
        facts={"calibration_bytes": cost},
    )


GRID = {"group_size": (4, 8)}
METHOD = Method("wisard", "Federated WiSARD", "one-shot", run, Settings(), GRID, invariant=True)
