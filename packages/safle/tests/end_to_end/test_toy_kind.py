"""A kind is one module: one that a test registers goes everywhere, and nothing else changes."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from safle import (
    SafleClassifier,
    Statistics,
    decode,
    encode,
    kinds,
    load_encoder,
    load_model,
    make_encoder,
    public_sample,
)
from safle.encoders import registry
from support.data_sets import data_sets, encoders
from support.reference import phi
from support.tables import write_table


@pytest.fixture(autouse=True, scope="module")
def _registered():
    """The kind is known to this file's tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        # Nobody but a test forgets a kind again: there is no public way, nor need of one.
        patch.setattr(registry, "_kinds", {**registry._kinds})
        registry.register(importlib.import_module("support.toy_kind").ToyEncoder)
        assert [*kinds()][-1] == "toy"
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory, digits):
    place = tmp_path_factory.mktemp("toy")
    for name, part in {"a": slice(0, 300), "b": slice(300, 600), "test": slice(600, 800)}.items():
        write_table(place / f"{name}.npz", digits[0][part], digits[1][part])
    write_table(place / "all.npz", digits[0][:600], digits[1][:600])
    return place


@pytest.mark.slow
def test_it_goes_through_the_commands(folder, digits, safle, monkeypatch):
    monkeypatch.chdir(folder)
    # Options are made of the kinds that are known when a command is imported. Other tests get the
    # command without this kind back.
    importlib.import_module("safle.cli.encoder")
    monkeypatch.delitem(sys.modules, "safle.cli.encoder")
    assert "--reach" in safle("encoder", "make", "--help")
    made = ["--range", "0", "16", "--features", "64", "--kind", "toy", "--reach", "1"]
    shown = safle("encoder", "make", *made, "-o", "encoder.safetensors")
    assert "toy" in shown
    assert "reach" in shown
    encoder = ["--encoder", "encoder.safetensors"]
    for name in "ab":
        safle("count", f"{name}.npz", *encoder, "-o", f"{name}.stats")
    safle("sum", "a.stats", "b.stats", "-o", "total.stats")
    safle("solve", "total.stats", *encoder, "-o", "model.safetensors")
    safle("evaluate", "model.safetensors", "test.npz")
    safle("store", "add", "store", *encoder, "a.stats", "b.stats")
    safle("solve", "store", "-o", "stored.safetensors")
    model = (folder / "model.safetensors").read_bytes()
    assert (folder / "stored.safetensors").read_bytes() == model
    simulated = ["--clients", "3", "--out", "simulation"]
    safle("simulate", "all.npz", *encoder, *simulated)
    assert (folder / "simulation" / "model.safetensors").read_bytes() == model
    loaded = load_model(folder / "model.safetensors")
    assert (loaded.predict(digits[0][600:800]) == digits[1][600:800]).mean() > 0.7
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    safle("export", "model.safetensors", "-o", "model.onnx")
    session = runtime.InferenceSession(folder / "model.onnx")
    features = digits[0][600:800].astype(np.float32)
    scores, labels = session.run(["scores", "label"], {"features": features})
    assert np.array_equal(scores, loaded.decision_function(features))
    assert np.array_equal(labels, loaded.predict(features))


def test_it_goes_through_the_estimator(digits):
    estimator = clone(SafleClassifier(encoder="toy", reach=1))
    fitted = estimator.fit(digits[0][:600], digits[1][:600])
    assert fitted.encoder_.settings.reach == 1
    assert fitted.score(digits[0][600:800], digits[1][600:800]) > 0.7


def test_toy_kind_goes_through_files(tmp_path, digits):
    sample = public_sample(digits[0])
    encoder = make_encoder(sample, "toy", reach=3)
    encoder.save(tmp_path / "encoder")
    assert load_encoder(tmp_path / "encoder") == encoder
    assert "reach" in encoder.facts()


@given(data_sets(kind="toy"), st.integers(0, 2**32 - 1))
def test_the_theorems_hold(drawn, seed):
    whole = drawn.count()
    columns = phi(drawn.encoder, drawn.features)[:, [*whole.codes, -1]]
    assert np.array_equal(whole.gram_square(), columns.T @ columns)
    owner = np.random.default_rng(seed).integers(0, 3, len(drawn))
    parts = [drawn.part(owner == client).count() for client in range(3)]
    assert sum(parts, Statistics.empty(drawn.encoder.space)) == whole
    assert decode(encode(whole)) == whole


@given(encoders("toy"))
def test_values_stay_within_the_declared_limits(encoder):
    features = 3 * np.random.default_rng(0).standard_normal((30, encoder.feature_dim))
    dense = encoder.encode(features).dense
    layout = encoder.layout
    assert ((layout.low <= dense) & (dense <= layout.high)).all()
