"""True files of every type, to be damaged; and compression without threads."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import numpy as np
import pytest

from safle import LinearEncoder, Model, count, decode, encode, evaluate, solve
from safle.encoders.calibration import declared_range
from safle.evaluation.counts import Evaluation
from safle.statistics.histogram import Histogram
from safle_private import plan_noise, publish
from safle_private.noisy import NoisyStatistics
from support.data_sets import KINDS, fixed_data


@pytest.fixture(scope="session")
def files():
    """A true file of every type and its decoder, by name; statistics by the kind of encoder."""
    features, labels = np.random.default_rng(0).normal(size=(50, 3)), [0, 1] * 25
    encoder = LinearEncoder.publishable(declared_range(-2, 2, feature_dim=3))
    total, plan = count(encoder, features, labels), plan_noise(encoder.layout, 2, 1e-5)
    noisy = publish(total, plan, [0, 1], draw=lambda size, scale: np.full(size, int(scale)))
    evaluation = evaluate(Model.of(encoder, solve(total)), features, labels)
    return {
        **{kind: (encode(fixed_data(kind).count()), decode) for kind in KINDS},
        "histogram": (
            encode(Histogram.empty(-2, 2, 3, bins=10).count(features)),
            partial(decode, value_type=Histogram),
        ),
        "noisy": (encode(noisy), partial(decode, value_type=NoisyStatistics)),
        "evaluation": (encode(evaluation), partial(decode, value_type=Evaluation)),
    }


class NoThreads:
    """Does at once what it is given: small files are compressed sooner than a thread starts."""

    def __init__(self, workers):
        del workers

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    map = staticmethod(map)

    @staticmethod
    def submit(function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safle.wire.container.ThreadPoolExecutor", NoThreads)
