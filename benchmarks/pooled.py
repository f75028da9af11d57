"""Pooled: `SafleClassifier().fit` on all samples, against one float32 product of their codes.

Fitting is calibrating, encoding, counting exactly, choosing the ridge and solving, with the
default encoder. The rival is what any least squares on these codes does first and
approximately: ``X.T @ X`` in float32, of ready codes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from benchmarks.timing import race
from benchmarks.warming import load_solver
from safle import Encoder, SafleClassifier

REPEATS = 2
BAR = 1.5
AT_A_TIME = 5_000


def run(settings: Settings) -> Outcome:
    """Fit and multiply in turns."""
    dataset = data.load(settings)
    load_solver()
    fit = partial(SafleClassifier().fit, dataset.train, dataset.train_labels)
    note("pooled: encoding for the rival ...")
    codes = _codes(data.default(dataset.train, samples=None), dataset.train)
    times = race(("safle", fit), {"float32": lambda: codes.T @ codes}, same=_same, repeats=REPEATS)
    over = times.ratio("safle", "float32")
    return Outcome(
        figures={
            "time_over_float32_product": over,
            "seconds": times.to_json(),
            "spread": times.spread(),
            "samples": len(codes),
            "columns": codes.shape[1],
        },
        data=dataset.source,
        compared="every sum of products, within the rounding of float32",
        bars=[Bar("pooled: a fit over one float32 product", over, BAR, at_most=True)],
    )


def _codes(encoder: Encoder, features: NDArray[np.float32]) -> NDArray[np.float32]:
    codes = np.empty((len(features), encoder.layout.dense_dim), np.float32)
    for first in range(0, len(features), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        codes[part] = encoder.encode(features[part]).dense
    return codes


def _same(found: NDArray[Any], expected: SafleClassifier) -> None:
    exact = expected.statistics_.gram.packed
    for row in range(0, len(found), 997):
        first = row * len(found) - row * (row - 1) // 2
        ours = exact[first : first + len(found) - row].astype(np.float64)
        scale = np.sqrt(float(found[row, row]) * found.diagonal()[row:])
        if not (np.abs(found[row, row:] - ours) <= 1e-4 * scale).all():
            raise Disagreement("pooled: the classifier counted other codes")
