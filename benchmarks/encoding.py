"""Encoding: features -> symbols, against NumPy. 50k x 512 features, L=4, G=4.

Two rivals. ``plain`` is the formula as a user writes it down:
``digits[:, P].reshape(n, E, G) @ k**i``. ``tuned`` is the fastest NumPy we found, which
keeps every intermediate in bytes; no bar, but worth knowing.

And ``default``: 10k samples through the default encoder, whose rival is its definition: the
fixed-point features, times a dense matrix of signs (float32), shifted and clipped.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import Settings
from benchmarks.timing import Times, race
from safle import RandomFeatureEncoder, make_encoder, public_sample
from safle.encoders.codes import Codes
from safle.encoders.operations import NumpyOperations
from safle.encoders.splitmix import permutation

BUCKETS, GROUP_SIZE = 4, 4
BAR, DEFAULT_BAR = 8.0, 10.0
REPEATS, RIVAL_REPEATS = 12, 4
DEFAULT_SAMPLES = 10_000

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
    default = _race_default(dataset)
    default_speedup = default.ratio("dense", "safle")
    return Outcome(
        figures={
            "speedup": speedup,
            "speedup_over_tuned": times.ratio("tuned", "safle"),
            "digits_per_second": len(features) * len(order) / times.best("safle"),
            "seconds": times.to_json(),
            "spread": times.spread(),
            "default_speedup": default_speedup,
            "default_seconds": default.to_json(),
            "default_spread": default.spread(),
        },
        data=dataset.source,
        compared="every symbol, exactly",
        bars=[
            Bar("encoding: times faster than NumPy", speedup, BAR),
            Bar("encoding: times faster than NumPy, default", default_speedup, DEFAULT_BAR),
        ],
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


def _race_default(dataset: data.Dataset) -> Times:
    features = dataset.train[:DEFAULT_SAMPLES]
    encoder = make_encoder(public_sample(features[: data.PUBLIC_SAMPLES]))
    assert isinstance(encoder, RandomFeatureEncoder)
    signs = encoder.random.signs()
    return race(
        ("safle", partial(encoder.encode, features)),
        {"dense": partial(dense, features, encoder, signs)},
        same=_same_dense,
        repeats=REPEATS,
        rival_repeats=RIVAL_REPEATS,
    )


def dense(features: Floats, encoder: RandomFeatureEncoder, signs: Floats) -> NDArray[np.int16]:
    """The default encoder's definition, its features as in fixed point."""
    fixed = encoder.fixed_point(NumpyOperations(), features.astype(np.float64))
    units = encoder.random
    sums = (fixed.astype(np.float32) @ signs).astype(np.int32)
    codes = (sums + ((1 << units.shift) >> 1)) >> units.shift
    whole = np.full((len(features), encoder.layout.dense_dim), encoder.scale, np.int16)
    whole[:, : encoder.feature_dim] = fixed
    whole[:, encoder.feature_dim + 1 :] = np.clip(codes, 0, units.largest_code)
    return whole


def _same_dense(found: NDArray[np.int16], expected: Codes) -> None:
    if not np.array_equal(found, expected.dense):
        raise Disagreement("encoding: the default encoder's codes differ")


def _same(found: NDArray[np.integer], expected: Codes) -> None:
    if not np.array_equal(found, expected.symbols):
        raise Disagreement("encoding: the symbols differ")
