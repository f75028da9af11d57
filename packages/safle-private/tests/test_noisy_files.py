"""Files of noisy statistics: read back as they were, and refused where they promise nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from safle import LinearEncoder, Model, Statistics, count, declared_range, decode, encode, solve
from safle.errors import EncoderMismatch, SafleError, WireError
from safle.server.store import Store
from safle.statistics.free_sums import FreeSums
from safle.wire import container
from safle_private.noise import plan_noise, publish
from safle_private.noisy import NoisyStatistics
from support.data_sets import KINDS, fixed_calibration, publishable_encoder
from support.forging import Forgery

CALIBRATION = declared_range(-2, 2, feature_dim=3)


def draw(size, scale):
    return np.rint(np.random.default_rng(size).normal(0, scale, size)).astype(np.int64)


def published_by(kind):
    """An encoder, exact sums, and the same with noise."""
    encoder = publishable_encoder(kind, fixed_calibration(3))
    total = count(encoder, np.random.default_rng(0).standard_normal((50, 3)), [0, 1] * 25)
    plan = plan_noise(encoder.layout, 2, 1e-5, calibration="public")
    return encoder, total, publish(total, plan, [0, 1, 2], draw=draw)


@pytest.fixture(scope="module")
def published():
    return published_by("linear")


@pytest.mark.parametrize("kind", KINDS)
def test_files_hold_all_of_it(kind):
    encoder, _, noisy = published_by(kind)
    data = encode(noisy)
    read = decode(data, NoisyStatistics, space=encoder.space)
    assert read == noisy
    assert encode(read) == data
    assert read.privacy.calibration == "public"
    assert Model.of(encoder, solve(read)).digest == Model.of(encoder, solve(noisy)).digest


def test_noisy_statistics_are_not_taken_for_others(published, tmp_path):
    encoder, total, noisy = published
    with pytest.raises(WireError, match="noisy statistics file"):
        decode(encode(noisy))
    with pytest.raises(WireError, match="statistics file; expected noisy statistics"):
        decode(encode(total), NoisyStatistics)
    with Store.create(tmp_path / "store", encoder) as store:
        with pytest.raises(WireError, match="noisy"):
            store.add("a", encode(noisy))
        assert not store.members
    other = LinearEncoder.publishable(CALIBRATION, norm_clip=2)
    with pytest.raises(EncoderMismatch):
        decode(encode(noisy), NoisyStatistics, space=other.space)


def test_another_promise_is_another_digest(published):
    data = encode(published[2])
    forged = Forgery.of(data)
    forged.header["privacy"]["epsilon"] = 0.5
    assert container.declared_digest(forged.to_bytes()) != container.declared_digest(data)


NUMBERS = ("epsilon", "delta", "rho", "gram", "cross", "counts", "releases", "total_epsilon")


def test_noisy_promise_with_any_numbers_raises_typed_errors(published):
    """Noise of scale 1e308 once ended in OverflowError, when its ridge was worked out."""
    encoder, _, noisy = published
    for name, value in product(NUMBERS, [1e308, 1e200, 1e22, 5e-324, 10**18, 10**400, True]):
        forged = Forgery.of(encode(noisy))
        forged.header["privacy"][name] = value
        with suppress(SafleError):
            read = decode(forged.to_bytes(), NoisyStatistics)
            assert encode(read) == forged.to_bytes()
            Model.of(encoder, solve(read)).to_bytes()


def test_sums_that_would_wrap_are_refused(published):
    encoder, _, noisy = published
    free = FreeSums(encoder.layout, 3)
    for name in ("counts", "cross", "products"):
        huge = noisy.released.copy()
        huge[getattr(free, name)] = np.iinfo(np.int64).min
        with pytest.raises(SafleError, match="at most"):
            type(noisy).of(encoder, (0, 1, 2), huge, noisy.privacy)


def test_a_layout_too_large_to_read_is_refused_first():
    encoder = LinearEncoder.publishable(declared_range(0, 1, feature_dim=300))
    plan = plan_noise(encoder.layout, 1, 1e-5)
    data = encode(publish(Statistics.empty(encoder.space), plan, ["a"], draw=draw))
    assert decode(data, NoisyStatistics, limit=10**7).dim == 301
    with pytest.raises(WireError, match=r"1.5 MB; the limit is 1.0 MB"):
        decode(data, NoisyStatistics, limit=10**6)


def test_model_with_an_invalid_promise_is_refused(published):
    encoder, _, noisy = published
    model = Model.of(encoder, solve(noisy))
    assert b"epsilon" in model.to_bytes()
    assert model.promise == noisy.privacy.promise
    model.promise = replace(noisy.privacy, releases=2, total_epsilon=3.0).promise
    assert Model.from_bytes(model.to_bytes()).promise.endswith("all 2 releases")
    for promise in ("a" * 201, "two\nlines", "\x1b[2Jepsilon 0"):
        model.promise = promise
        with pytest.raises(WireError, match="promise"):
            Model.from_bytes(model.to_bytes())


def test_impossible_settings_of_a_release_are_refused(published):
    with pytest.raises(SafleError, match="epsilon"):
        replace(published[2].privacy, epsilon=float("nan"))
