"""Rehearsals: made-up features weigh what real ones do, and samples say what they are worth."""

from __future__ import annotations

import numpy as np
import pytest

from safle import EmbeddingEncoder, LinearEncoder, count
from safle.encoders import make_encoder
from safle.encoders.calibration import DeclaredMoments, DeclaredRange, PublicSample
from safle.errors import InvalidInput, SettingsError
from safle.site.rehearsal import MARGIN, fitting_share, rehearse, units_within, weigh, worth
from safle.wire import encode_statistics
from support.data_sets import KINDS, fixed_data, fixed_encoder

INK = DeclaredRange(0, 16, feature_dim=64)


@pytest.mark.parametrize("kind", KINDS)
def test_a_contribution_is_weighed_as_it_would_be_sent(kind):
    data = fixed_data(kind)
    statistics = data.count()
    found = weigh(data.encoder, data.features, data.labels)
    assert found.bytes == len(encode_statistics(statistics))
    assert (found.samples, found.columns) == (120, statistics.dim)
    assert found.numbers == statistics.dim * (statistics.dim + 1) // 2 + 3 * statistics.dim + 3
    assert found.seconds > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_rehearsal_is_the_same_every_time(kind):
    first, second = (rehearse(fixed_encoder(kind), samples=40, classes=4) for _ in range(2))
    assert (first.bytes, first.columns, first.samples) == (second.bytes, second.columns, 40)


@pytest.mark.parametrize("transform", ["none", "square-root"])
def test_plausible_features_have_the_calibrated_moments(transform):
    generator = np.random.default_rng(0)
    sample = PublicSample(generator.gamma(2.0, 1.5, (4_000, 5)))
    encoder = LinearEncoder.calibrated(sample, transform=transform)
    codes = encoder.encode(encoder.plausible_features(4_000, generator)).dense[:, :-1] / 256
    # 4,000 draws: means within 0.016, deviations within 0.011, each a standard error.
    assert np.abs(codes.mean(axis=0)).max() < 0.08
    assert np.abs(codes.std(axis=0) - 1).max() < 0.06


def test_plausible_features_fill_every_bucket_alike():
    generator = np.random.default_rng(0)
    sample = PublicSample(generator.normal(size=(500, 6)))
    encoder = EmbeddingEncoder.calibrated(sample, buckets=3, group_size=3)
    features = encoder.plausible_features(4_000, generator)
    above = (features[:, None] > encoder.thresholds).mean(axis=0)
    assert np.abs(above - np.array([[0.75], [0.5], [0.25]])).max() < 0.04


@pytest.mark.parametrize("kind", KINDS)
def test_real_contributions_stay_within_the_margin(kind):
    # Features that hang together: fewer directions than features.
    generator = np.random.default_rng(1)
    mixed = generator.normal(size=(700, 12)) @ generator.normal(size=(12, 40))
    features = np.abs(mixed + generator.normal(size=(700, 40)))
    encoder = make_encoder(PublicSample(features[:400]), kind)
    real = len(encode_statistics(count(encoder, features[400:], np.arange(300) % 7)))
    expected = rehearse(encoder, samples=300, classes=7).bytes
    assert real / MARGIN <= expected <= real * MARGIN


def test_samples_are_worth_what_the_held_out_ones_say(digits):
    features, labels = digits[0][:600], digits[1][:600]
    encoder = make_encoder(INK, units=256)
    found = worth(encoder, features, labels)
    assert found.judged == 120
    assert found.accuracy > 0.85
    assert 0.1 <= found.largest_class < 0.3
    assert found.error == pytest.approx(np.sqrt(found.accuracy * (1 - found.accuracy) / 120))
    shuffled = np.random.default_rng(0).permutation(labels)
    assert worth(encoder, features, shuffled).accuracy < 0.3


def test_too_few_samples_to_hold_any_out(digits):
    with pytest.raises(InvalidInput, match="4 samples; a fifth"):
        worth(make_encoder(INK, units=16), digits[0][:4], digits[1][:4])


@pytest.mark.parametrize("kind", KINDS)
def test_other_features_do_not_fit(kind):
    data = fixed_data(kind)
    assert fitting_share(data.encoder, data.features) > 0.9
    assert fitting_share(data.encoder, 1_000 + 0 * data.features) == 0
    if kind != "embedding":
        # Buckets cannot tell large from very large.
        assert fitting_share(data.encoder, 1_000 * data.features) < 0.75


@pytest.mark.parametrize("most", [30e3, 200e3])
def test_units_fill_a_budget_and_stay_within_it(most):
    moments = DeclaredMoments(np.zeros(40), np.ones(40))

    def bytes_of(units: int) -> float:
        return MARGIN * rehearse(make_encoder(moments, units=units), samples=100, classes=10).bytes

    units = units_within(
        lambda units: make_encoder(moments, units=units),
        most,
        most_units=4096,
        samples=100,
        classes=10,
    )
    assert bytes_of(units) <= most < bytes_of(round(1.15 * units) + 8)


def test_a_large_budget_takes_all_units_and_a_tiny_one_none():
    def make(units: int) -> object:
        return make_encoder(INK, units=units)

    assert units_within(make, 1e9, most_units=70, samples=20, classes=10) == 70
    with pytest.raises(SettingsError, match="with a single random feature, more than 1"):
        units_within(make, 1e3, most_units=70, samples=20, classes=10)


@pytest.mark.parametrize("samples", [20, 400])
def test_a_rehearsal_does_not_contradict_itself(samples):
    """It never says of the same samples that they can be worked out and that no way is known."""
    encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=64))
    told = " ".join(rehearse(encoder, samples=samples, classes=2).gives_away)
    assert ("can be worked out exactly" in told) != ("we know no way" in told)
    assert "lattice reduction" not in told
