"""Encoding: features -> symbols, against NumPy. 50k x 512 features, L=4, G=4.

Two rivals. ``plain`` is the formula as a user writes it down:
``digits[:, P].reshape(n, E, G) @ k**i``. ``tuned`` is the fastest NumPy we found, which
keeps every intermediate in bytes; no bar, but worth knowing.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import Settings
from benchmarks.timing import race
from safle.encoders.codes import Codes
from safle.encoders.shuffle import permutation

BUCKETS, GROUP_SIZE = 4, 4
BAR = 8.0
REPEATS, RIVAL_REPEATS = 12, 4

Floats = NDArray[np.float32]


def run(settings: Settings) -> Outcome:
    """Race `Encoder.encode`, checks of the input included, against two NumPy expressions."""
    dataset = data.load(settings)
    features = dataset.train
    encoder = data.embedding(features, buckets=BUCKETS, group_size=GROUP_SIZE)
    # In the features' precision, or NumPy would first widen 25 million features.
    thresholds = encoder.thresholds.astype(np.float32)
    order = permutation(BUCKETS * encoder.feature_dim, encoder.settings.seed)
    times = race(
        ("safle", partial(encoder.encode, features)),
        {
            "plain": partial(plain, features, thresholds, order),
            "tuned": partial(tuned, features, thresholds, order),
        },
        same=_same,
        repeats=REPEATS,
        rival_repeats=RIVAL_REPEATS,
    )
    speedup = times.ratio("plain", "safle")
    return Outcome(
        figures={
            "speedup": speedup,
            "speedup_over_tuned": times.ratio("tuned", "safle"),
            "digits_per_second": len(features) * len(order) / times.best("safle"),
            "seconds": times.to_json(),
            "spread": times.spread(),
        },
        data=dataset.source,
        compared="every symbol, exactly",
        bars=[Bar("encoding: times faster than NumPy", speedup, BAR)],
    )


def plain(features: Floats, thresholds: Floats, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The definition, written down."""
    digits = (features[:, :, None] > thresholds.T).reshape(len(features), -1)
    groups = digits[:, order].reshape(len(features), -1, GROUP_SIZE)
    symbols: NDArray[np.int64] = groups @ 2 ** np.arange(GROUP_SIZE)
    return symbols


def tuned(features: Floats, thresholds: Floats, order: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The same in bytes throughout."""
    digits = (features[:, :, None] > thresholds.T).reshape(len(features), -1)
    groups = digits[:, order].view(np.uint8).reshape(len(features), -1, GROUP_SIZE)
    symbols: NDArray[np.uint8] = np.einsum(
        "seg,g->se", groups, 1 << np.arange(GROUP_SIZE, dtype=np.uint8)
    )
    return symbols


def _same(found: NDArray[np.integer], expected: Codes) -> None:
    if not np.array_equal(found, expected.symbols):
        raise Disagreement("encoding: the symbols differ")
