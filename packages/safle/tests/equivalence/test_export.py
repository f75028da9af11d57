"""Exports decide as safle does: every encoder, bucketing and head, on and around thresholds."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import LinearEncoder, Model, SafleClassifier, count, make_encoder, solve
from safle.encoders.calibration import declared_range, public_sample
from safle.errors import InvalidInput, MissingExtra
from safle_private.noise import plan_noise, publish
from support.data_sets import KINDS, LINEAR_HEADS, data_sets, declared_settings

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
export = importlib.import_module("safle.model.export")
export_onnx, to_onnx = export.export_onnx, export.to_onnx

BUCKETED = {
    "integer": {"bucketing": "integer", "buckets": 5, "group_size": 3},
    "one-hot": {"bucketing": "one-hot", "buckets": 4, "group_size": 5},
    "wide-integer": {"bucketing": "integer", "buckets": 200, "group_size": 2},
}
CASES = {
    **{kind: declared_settings(kind, units=20, buckets=4) for kind in KINDS},
    "by-class": {"kind": KINDS[0], "units": 20, "by_class": True, "transform": "square-root"},
    **{name: {"kind": "embedding", **settings} for name, settings in BUCKETED.items()},
}
"""Settings of every kind of encoder, and of every way to bucket."""
TABLES = ["embedding", *BUCKETED]
TWO_HEADS = ["least-squares", "averaged"]
NAMES = {"int": np.array([-7, 3, 2**40]), "str": np.array(["", "Äpfel", "zebra crossing"])}


def encoder_of(case, sample):
    return make_encoder(sample, **{"kind": case, **CASES[case]})


def make_model(encoder, features, labels, head="least-squares"):
    statistics = count(encoder, features, labels)
    return Model.of(encoder, solve(statistics, ridge=1.0, head=head))


def random_data(names=NAMES["int"], samples=150, feature_dim=7):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, len(names), samples)
    features = rng.normal(size=(samples, feature_dim)) + labels[:, None]
    features[:, 2] = 0.1  # A constant feature: all its thresholds are equal.
    return features.astype(np.float32), names[labels]


def run_onnx(proto, features, outputs=("scores", "label")):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run([*outputs], {"features": features})


def metadata_of(proto):
    return {entry.key: entry.value for entry in proto.metadata_props}


def assert_same(model, features):
    scores, labels = run_onnx(to_onnx(model), features)
    assert np.array_equal(scores, model.decision_function(features))
    assert labels.tolist() == model.predict(features).tolist()


def model_of(kind, head="least-squares", names=NAMES["int"]):
    """A model of a case, and the features that it was made of."""
    features, labels = random_data(names)
    return make_model(encoder_of(kind, public_sample(features)), features, labels, head), features


@pytest.mark.parametrize(("head", "names"), [*zip(TWO_HEADS, NAMES.values(), strict=True)])
@pytest.mark.parametrize("kind", CASES)
def test_same_scores_for_any_batch(kind, head, names):
    model, features = model_of(kind, head, names)
    for batch in (0, 1, 150):
        assert_same(model, features[:batch])


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_onnx_gives_the_same_probabilities(head):
    model, features = model_of("linear", head)
    for batch in (0, 1, 150):
        part = features[:batch]
        (found,) = run_onnx(to_onnx(model), part, ["probabilities"])
        np.testing.assert_allclose(found, model.predict_proba(part), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("together", [1, 1 << 13])
def test_the_quadratic_head_has_the_same_scores(together, monkeypatch):
    monkeypatch.setattr("safle.model.scores.EXPORTED_COLUMNS", together)
    model, features = model_of("by-class", "quadratic")
    assert len(set(model.predict(features))) == 3
    assert_same(model, features)


@given(data_sets(1), st.sampled_from(TWO_HEADS))
@settings(max_examples=30)
def test_same_scores_on_any_data(drawn, head):
    head = TWO_HEADS[0] if len(set(drawn.labels)) < 2 else head
    model = make_model(drawn.encoder, drawn.features, drawn.labels, head)
    assert_same(model, drawn.features.astype(np.float32))


def around(thresholds):
    """Every threshold as float32, and its neighbours on either side; (samples, features)."""
    near = thresholds.astype(np.float32)
    sides = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([near, *sides])


@pytest.mark.parametrize("kind", TABLES)
def test_thresholds_are_decided_exactly(kind):
    # float64 quantiles that float32 cannot hold: rounding them either way would show.
    exact = np.random.default_rng(0).normal(size=(150, 7))
    labels = random_data()[1]
    encoder = encoder_of(kind, public_sample(exact))
    model = make_model(encoder, exact, labels)
    assert_same(model, around(encoder.thresholds))


@pytest.mark.parametrize("factor", [1e-42, 1e-3, 1e3, 1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_values_far_out_are_clipped_alike(kind, factor):
    model, features = model_of(kind)
    assert_same(model, features * np.float32(factor))


def test_gathering_in_blocks_changes_nothing(monkeypatch):
    monkeypatch.setattr(export, "GATHERED", 6)
    assert_same(*model_of("embedding"))


def test_onnx_files_are_checked_named_and_reproducible(tmp_path):
    model, features = model_of("table")
    export_onnx(model, tmp_path / "a.onnx")
    export_onnx(model, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    proto = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert {node.domain for node in proto.graph.node} == {""}
    properties = metadata_of(proto)
    assert properties["safle.digest"] == model.digest
    assert json.loads(properties["safle.classes"]) == list(model.class_names)
    _, labels = run_onnx((tmp_path / "a.onnx").read_bytes(), features)
    assert np.array_equal(labels, model.predict(features))


def test_onnx_says_in_which_order_and_form_columns_are():
    frame = polars.DataFrame({"sex": ["m", "f"] * 20, "age": [30.0, None, 50.0, 60.0] * 10})
    labels = np.arange(40) % 4 > 1
    model = SafleClassifier().fit(frame, labels).model_
    columns = json.loads(metadata_of(to_onnx(model))["safle.columns"])
    assert columns == [{"name": "age"}, {"name": "sex", "levels": ["f", "m"]}]
    levels = [None if row is None else ["f", "m"].index(row) for row in frame["sex"]]
    features = np.array([frame["age"].to_list(), levels], np.float32).T
    _, found = run_onnx(to_onnx(model).SerializeToString(), features)
    assert np.array_equal(found, model.predict(frame))


def test_exports_of_noisy_sums_say_what_was_promised(linear_model):
    encoder = LinearEncoder.publishable(declared_range(-3, 3, 7))
    exact = count(encoder, *random_data())
    generator = np.random.default_rng(0)
    noisy = publish(
        exact,
        plan_noise(exact.layout, 3, 1e-5),
        exact.class_names,
        draw=lambda size, scale: np.rint(generator.normal(0, scale, size)).astype(np.int64),
    )
    assert "safle.promise" not in metadata_of(to_onnx(linear_model))
    told = json.loads(metadata_of(to_onnx(Model.of(encoder, solve(noisy))))["safle.promise"])
    assert told == noisy.privacy.promise


@pytest.fixture
def linear_model():
    return model_of("linear")[0]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "safle.model.export")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"safle\[onnx\]"):
        importlib.import_module("safle.model.export")


def test_tables_beyond_two_gigabytes(linear_model, monkeypatch):
    monkeypatch.setattr(export, "MAX_BYTES", 10)
    with pytest.raises(InvalidInput, match="2 GB"):
        to_onnx(linear_model)


def test_exports_of_the_default_are_about_as_small_as_the_model(tmp_path):
    """Signs of random features are few integers: as a matrix of floats they were 42 of 43 MB."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 256)).astype(np.float32)
    labels = np.arange(60) % 3
    model = make_model(make_encoder(public_sample(features)), features, labels, head="averaged")
    export_onnx(model, tmp_path / "model.onnx")
    # A model knows the seed of its signs and thresholds; an export holds them, three bytes a sign
    # and eight a threshold.
    own = len(model.to_bytes()) + (16 * 3 + 8) * model.encoder.settings.units
    assert (tmp_path / "model.onnx").stat().st_size < own + 20_000
    assert_same(model, features)
