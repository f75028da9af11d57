"""Encoder settings: defaults, refusals with their arithmetic, fingerprints."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits

from safle import (
    Bucketing,
    EmbeddingEncoder,
    LinearEncoder,
    Model,
    RandomFeatureEncoder,
    count,
    load_encoder,
    make_encoder,
    solve,
)
from safle.encoders.calibration import declared_moments, declared_range, public_sample
from safle.encoders.codes import Block, Layout
from safle.encoders.products import ProductEncoder
from safle.encoders.registry import kind_named
from safle.errors import InvalidInput, SettingsError
from support.data_sets import KINDS, fixed_encoder


def embedding(features=4, buckets=3, group_size=2, **settings):
    levels = np.linspace(0, 1, 3 if buckets is None else int(buckets))[:, None] * np.ones(
        (1, features)
    )
    return EmbeddingEncoder(levels, buckets=buckets, group_size=group_size, **settings)


def products(**changed):
    """An encoder of six features and three products of two coordinates."""
    arrays = {
        "mean": np.zeros(6),
        "deviation": np.ones(6),
        "directions": np.ones((6, 2), np.int16),
        "centres": np.zeros(2, np.int32),
        "pairs": np.array([[0, 0], [0, 1], [1, 1]], np.int32),
        "factors": np.ones(3, np.int32),
        "offsets": np.zeros(3, np.int32),
    }
    return ProductEncoder(**(arrays | {"transform": "none", "by_class": False} | changed))


def random_features(**settings):
    given = {"units": 5, "terms": 16, "transform": "none", "by_class": False} | settings
    return RandomFeatureEncoder(np.zeros(20), np.ones(20), **given)


@pytest.mark.parametrize(
    ("make", "arithmetic"),
    [
        (lambda: embedding(group_size=13), "1..12 (4 features x 3 digits)"),
        (lambda: embedding(group_size=0), "group_size is 0; expected an integer of at least 1"),
        (
            lambda: EmbeddingEncoder.calibrated(declared_range(0, 1, 3), group_size=0),
            "group_size is 0; expected an integer of at least 1",
        ),
        (lambda: embedding(features=40, group_size=17), "2^17"),
        (lambda: embedding(features=10**6, buckets=1, group_size=16), "62500 experts x 2^16"),
        (lambda: embedding(seed=-1), "0..9223372036854775807"),
        (lambda: embedding(seed=2**64), "0..9223372036854775807"),
        (lambda: embedding(buckets=1, bucketing="integer"), "expected 2..65536"),
        (lambda: embedding(buckets=65_537), "expected an integer, 1..65536"),
        (lambda: embedding(buckets=1, bucketing="one-hot"), "expected 2..65536"),
        (lambda: embedding(buckets=0), "expected an integer, 1..65536"),
        (lambda: embedding(bucketing="round"), "'binary-overlap', 'integer', 'one-hot'"),
        (
            lambda: EmbeddingEncoder(
                np.zeros((255, 9)), bucketing="integer", buckets=256, group_size=3
            ),
            "256^3",
        ),
        (
            lambda: EmbeddingEncoder(
                np.zeros((2, 9)), bucketing="integer", buckets=4, group_size=1
            ),
            "2 thresholds per feature; integer bucketing with 4 buckets needs 3",
        ),
        (
            lambda: EmbeddingEncoder(np.zeros(3), bucketing="integer", buckets=4, group_size=1),
            "shape (3,)",
        ),
        (lambda: LinearEncoder(np.zeros(2), np.ones(3)), "(2,) and deviation (3,)"),
        (lambda: LinearEncoder(np.zeros(2), np.zeros(2)), "positive"),
        (lambda: LinearEncoder(np.zeros(2), np.ones(2), fraction_bits=13), "0..12"),
        (lambda: LinearEncoder(np.zeros(2), np.ones(2), fraction_bits=-1), "0..12"),
        (lambda: LinearEncoder(np.array([np.nan]), np.ones(1)), "finite"),
        (lambda: LinearEncoder(np.zeros(2), np.ones(2), transform="log"), "'none', 'square-root'"),
        (lambda: random_features(units=0), "units is 0"),
        (lambda: random_features(terms=257), "1..256"),
        (lambda: random_features(terms=64), "64 terms; expected at most 20"),
        (lambda: random_features(bits=1), "2..8"),
        (lambda: random_features(bits=9), "2..8"),
        (lambda: random_features(fraction_bits=0, terms=1, bits=8), "more fraction_bits"),
        (lambda: random_features(seed=-1), "seed is -1"),
        (lambda: products(directions=np.zeros((5, 2), np.int16)), "shape (6, 2)"),
        (lambda: products(directions=np.zeros((6, 2))), "directions are float64"),
        (lambda: products(directions=np.full((6, 2), -32_768, np.int16)), "-32768"),
        (lambda: products(centres=np.zeros((1, 2), np.int32)), "0 coordinates"),
        (lambda: products(centres=np.zeros(0, np.int32)), "0 coordinates"),
        (lambda: products(pairs=np.array([[0, 2]] * 3, np.int32)), "0 to 1"),
        (lambda: products(pairs=np.array([[-1, 0]] * 3, np.int32)), "-1"),
        (lambda: products(pairs=np.zeros((3, 3), np.int32)), "shape (3, 2)"),
        (lambda: products(factors=np.zeros(0, np.int32)), "0 products"),
        (lambda: products(factors=np.full(3, 4_096, np.int32)), "4095"),
        (lambda: products(offsets=np.full(3, (1 << 30) + 1, np.int32)), str(1 << 30)),
        (lambda: products(offsets=np.zeros(2, np.int32)), "shape (3,)"),
        (lambda: products(products=2), "at most 2 products"),
        (lambda: make_encoder(declared_range(0, 1, 6), "products"), "public_sample"),
        (lambda: make_encoder(public_sample([[1.0, 2.0]]), "products"), "n_samples=1"),
        (lambda: make_encoder(public_sample(np.ones((9, 2))), "products"), "hardly varies"),
        (lambda: Bucketing("other", 8), "expected one of integer, one-hot, binary-overlap"),
        (lambda: Bucketing("integer", 65_537), "expected 2..65536"),
        (lambda: Layout([Block("tables", rows=65_537)]), "1..65536"),
        (lambda: Layout([Block("tables", 1025, rows=65_536)]), "67174400"),
        (lambda: Layout([]), "expected 1.."),
    ],
)
def test_wrong_settings_are_refused_with_the_arithmetic(make, arithmetic):
    with pytest.raises(SettingsError, match=re.escape(arithmetic)):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_thresholds_must_be_finite_and_ascending(bad):
    for column in ([0.0, bad, 1.0], [0.0, 2.0, 1.0]):
        with pytest.raises(SettingsError, match="finite and must not decrease"):
            EmbeddingEncoder(np.array(column)[:, None], buckets=3, group_size=1)


@pytest.mark.parametrize("features", [1, 2, 3, 5, 64, 512, 768, 2048, 20_000])
@pytest.mark.parametrize(
    "bucketing", [None, ("integer", 2), ("integer", 9), ("one-hot", 2), ("one-hot", 20)], ids=str
)
def test_defaults_suit_any_number_of_features(features, bucketing):
    chosen = dict(zip(("bucketing", "buckets"), bucketing or (), strict=False))
    encoder = EmbeddingEncoder.calibrated(declared_range(-1, 1, features), **chosen)
    assert encoder.feature_dim == features
    digits = features * encoder.bucketing.functions
    # Two columns a digit at least, whatever the group.
    assert encoder.layout.dim <= max(12_288, 2 * digits, encoder.bucketing.radix * digits)


def test_the_default_for_a_512_feature_backbone_has_8000_to_16000_columns():
    layout = EmbeddingEncoder.calibrated(declared_range(0, 1, 512)).layout
    assert 8_000 <= layout.dim <= 16_000


def test_settings_may_be_numpy_integers(tmp_path):
    plain = embedding(buckets=3, group_size=2, seed=5)
    numpy = EmbeddingEncoder(
        plain.thresholds,
        buckets=np.int64(3),
        group_size=np.int32(2),
        seed=np.uint64(5),
    )
    linear = LinearEncoder(np.zeros(2), np.ones(2), fraction_bits=np.int64(4))
    numpy.save(tmp_path / "encoder")
    linear.save(tmp_path / "linear")
    assert load_encoder(tmp_path / "encoder") == plain == numpy
    assert load_encoder(tmp_path / "linear") == linear


@pytest.mark.parametrize("value", [2.0, "2", None])
def test_settings_of_another_type_are_refused(value):
    for make in (
        lambda: embedding(group_size=value),
        lambda: embedding(seed=value),
        lambda: embedding(buckets=value),
        lambda: LinearEncoder(np.zeros(2), np.ones(2), fraction_bits=value),
    ):
        with pytest.raises(SettingsError, match=r"integer|expected a value"):
            make()


def test_every_setting_changes_the_fingerprint():
    base = np.array([[0.0, 0.1], [0.5, 0.6]])
    moved = base.copy()
    moved[1, 1] = np.nextafter(moved[1, 1], 1)
    mean, deviation = np.zeros(2), np.ones(2)
    made = [
        EmbeddingEncoder(base, buckets=2, group_size=2),
        EmbeddingEncoder(moved, buckets=2, group_size=2),
        EmbeddingEncoder(base, buckets=2, group_size=1),
        EmbeddingEncoder(base, buckets=2, group_size=2, seed=1),
        EmbeddingEncoder(base, bucketing="integer", buckets=3, group_size=2),
        EmbeddingEncoder(base, bucketing="one-hot", buckets=3, group_size=2),
        EmbeddingEncoder(base.reshape(1, 4), bucketing="integer", buckets=2, group_size=2),
        EmbeddingEncoder(base.reshape(1, 4), buckets=1, group_size=2),
        LinearEncoder(mean, deviation),
        LinearEncoder(mean + 1e-9, deviation),
        LinearEncoder(mean, deviation * 2),
        LinearEncoder(mean, deviation, fraction_bits=7),
    ]
    assert len({encoder.fingerprint for encoder in made}) == len(made)
    assert len(set(made)) == len(made)
    assert all(len(encoder.fingerprint) == 64 for encoder in made)


def test_a_fingerprint_does_not_depend_on_how_the_thresholds_were_stored():
    plain = embedding()
    turned = EmbeddingEncoder(np.asfortranarray(plain.thresholds), buckets=3, group_size=2)
    assert plain == turned


def test_an_encoder_does_not_follow_the_array_it_was_made_from():
    levels = np.zeros((3, 4))
    encoder = EmbeddingEncoder(levels, buckets=3, group_size=2)
    before = encoder.fingerprint
    levels += 1
    assert EmbeddingEncoder(encoder.thresholds, buckets=3, group_size=2) == encoder
    assert encoder.fingerprint == before


def test_constant_features_are_harmless():
    sample = np.full((300, 2), [0.1, 1e6 + 0.1])
    features = np.array([[0.1, 1e6 + 0.1], [3.0, 5.0]])
    linear = LinearEncoder.calibrated(public_sample(sample), fraction_bits=0)
    assert linear.encode(features).dense[0].tolist() == [0, 0, 1]
    assert linear.encode(features).dense[1].tolist() == [3, -32_767, 1]
    embedding = EmbeddingEncoder.calibrated(public_sample(sample))
    assert (embedding.encode(features).symbols[0] == 0).all()


def test_values_beyond_the_fixed_point_range_are_clipped():
    encoder = LinearEncoder(np.zeros(1), np.array([1e-300]))
    codes = encoder.encode(np.array([[1e300], [-1e300], [0.0]])).dense
    assert codes[:, 0].tolist() == [32_767, -32_767, 0]


def test_table_encoder_keeps_the_lowest_number_apart_from_a_gap():
    encoder = make_encoder(declared_range(0, 1, feature_dim=1), "table")
    codes = encoder.encode([[np.finfo(np.float64).min], [np.nan]])
    assert codes.symbols.tolist() == [[1], [0]]
    assert codes.dense[:, 0].tolist() == [-32_767, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_encode_refuses_nan_with_its_place(value, dtype):
    features = np.zeros((5, 6), dtype)
    features[3, 2] = value
    for kind in KINDS:
        if np.isnan(value) and kind_named(kind).gaps:
            continue
        with pytest.raises(InvalidInput, match=r"sample 3, column 2"):
            fixed_encoder(kind).encode(features)


@pytest.mark.parametrize(
    ("features", "found"),
    [
        (np.zeros(6), r"shape \(6,\)"),
        (np.zeros((2, 3, 2)), r"shape \(2, 3, 2\)"),
        (np.zeros((2, 7)), "7 columns; this encoder expects 6"),
        (np.zeros((2, 6), complex), "complex"),
        (np.full((2, 6), "1.0"), "<U3"),
        (np.full((2, 6), None), "object"),
    ],
)
def test_features_of_another_shape_or_type_are_refused(features, found):
    with pytest.raises(InvalidInput, match=found):
        fixed_encoder("embedding").encode(features)


def test_the_default_encoder_adapts_to_the_features():
    few = make_encoder(declared_range(0, 16, feature_dim=3)).settings
    assert (few.transform, few.units, few.terms) == ("square-root", 48, 3)
    many = make_encoder(declared_moments(np.zeros(1280), np.ones(1280)))
    # Gaussian features may be negative: no square root.
    chosen = many.settings
    assert (chosen.transform, chosen.units, chosen.terms) == ("none", 8192, 16)
    assert many.kind == "random-features"
    limits = [(block.columns, block.low, block.high) for block in many.layout.blocks]
    assert limits == [(1280, -32_767, 32_767), (1, 64, 64), (8192, 0, 15)]
    assert many.layout.constants.tolist() == [1280]


def test_a_public_sample_of_many_features_makes_products():
    sample = np.random.default_rng(0).normal(size=(300, 128))
    encoder = make_encoder(public_sample(sample), class_count=3)
    assert encoder.kind == "products"
    limits = [(b.columns, b.low, b.high, b.scale, b.by_class) for b in encoder.layout.blocks]
    linear = [(128, -32_767, 32_767, 16, True), (1, 16, 16, 1, True)]
    assert limits == [*linear, (3_381, 0, 15, 4, False)]
    gaps = sample.copy()
    gaps[200:, 3] = np.nan
    few = [sample[:200], sample[:, :64], gaps]
    assert {make_encoder(public_sample(part)).kind for part in few} == {"random-features"}
    assert make_encoder(public_sample(sample), units=64).kind == "random-features"
    assert make_encoder(public_sample(sample), products=64).layout.dim == 128 + 1 + 64


def test_products_are_centred_half_deviations_of_the_sample():
    generator = np.random.default_rng(0)
    sample = generator.normal(size=(4_000, 12)) @ generator.normal(size=(12, 12)) + 5
    sample[::7, 3] = np.nan
    encoder = make_encoder(public_sample(sample), "products")
    complete = sample[~np.isnan(sample).any(axis=1)]
    codes = encoder.encode(complete).dense[:, 13:].astype(float)
    assert np.abs(codes.mean(axis=0) - 8).max() < 0.25
    assert 1.4 < codes.std(axis=0).min() < codes.std(axis=0).max() < 2.1
    # The first pair are the direction of the largest variance and itself.
    assert encoder.pairs[0].tolist() == [0, 0]


def test_moments_of_square_roots_are_those_of_the_transformed_sample():
    sample = np.random.default_rng(0).exponential(size=(20_000, 3))
    made = LinearEncoder.calibrated(public_sample(sample), transform="square-root")
    # From 255 quantiles, which miss the tails: close, and the same at every client.
    np.testing.assert_allclose(made.mean, np.sqrt(sample).mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(made.deviation, np.sqrt(sample).std(axis=0), rtol=0.05)


def test_random_features_beat_embeddings_and_the_linear_head_on_digits():
    features, labels = load_digits(return_X_y=True)
    ink = declared_range(0, 16, feature_dim=64)
    accuracy = {}
    for kind, encoder in {
        "linear": LinearEncoder.calibrated(ink),
        "embedding": EmbeddingEncoder.calibrated(ink),
        "default": make_encoder(ink),
    }.items():
        statistics = count(encoder, features[:1297], labels[:1297])
        model = Model.of(encoder, solve(statistics))
        accuracy[kind] = (model.predict(features[1297:]) == labels[1297:]).mean()
    assert accuracy["default"] > accuracy["embedding"] > accuracy["linear"]


def test_an_encoder_of_no_features_is_neither_counted_with_nor_saved(tmp_path):
    empty = LinearEncoder([], [])
    for use in (lambda: empty.space, lambda: empty.save(tmp_path / "encoder.safetensors")):
        with pytest.raises(SettingsError, match="no features"):
            use()
    assert not [*tmp_path.iterdir()]
