"""A head is one module: one that a test registers goes everywhere, and nothing else changes."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from sklearn.base import clone

from safle import (
    HEADS,
    Model,
    SafleClassifier,
    count,
    load_model,
    make_encoder,
    public_sample,
    solve,
)
from safle.errors import InvalidInput, WireError
from support.tables import write_table
from support.toy_head import HEAD


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """The head is known to this file's tests alone."""
    monkeypatch.setitem(HEADS, HEAD.name, HEAD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, digits):
    place = tmp_path_factory.mktemp("toy-head")
    write_table(place / "train.npz", digits[0][:600], digits[1][:600])
    write_table(place / "test.npz", digits[0][600:800], digits[1][600:800])
    return place


@pytest.mark.slow
def test_it_goes_through_the_commands(folder, digits, safle, monkeypatch):
    monkeypatch.chdir(folder)
    # The choice of heads is made when the command is imported. Other tests get the command without
    # this head back.
    importlib.import_module("safle.cli.solve")
    monkeypatch.delitem(sys.modules, "safle.cli.solve")
    assert HEAD.summary in " ".join(safle("solve", "--help").replace("│", " ").split())
    made = ["--range", "0", "16", "--features", "64", "--kind", "linear"]
    safle("encoder", "make", *made, "-o", "encoder.safetensors")
    encoder = ["--encoder", "encoder.safetensors"]
    safle("count", "train.npz", *encoder, "-o", "total.stats")
    head = ["--head", HEAD.name]
    shown = safle("solve", "total.stats", *encoder, *head, "-o", "model.safetensors")
    assert HEAD.name in shown
    assert HEAD.name in safle("inspect", "model.safetensors")
    moved = ["--priors", "uniform", "-o", "moved.safetensors"]
    safle("solve", "total.stats", *encoder, *head, *moved)
    safle("predict", "model.safetensors", "test.npz", "--proba", "-o", "answers.csv")
    safle("evaluate", "model.safetensors", "test.npz", "--counts", "test.eval")
    fitted = ["test.eval", "-o", "fitted.safetensors"]
    safle("fit-temperature", "model.safetensors", *fitted)
    safle("card", "model.safetensors", "--sum", "total.stats", "-o", "card.md")
    assert HEAD.name in (folder / "card.md").read_text()
    loaded = load_model(folder / "model.safetensors")
    assert loaded.head == HEAD.name
    assert (loaded.predict(digits[0][600:800]) == digits[1][600:800]).mean() > 0.7
    assert load_model(folder / "fitted.safetensors").temperature != loaded.temperature
    assert not np.array_equal(load_model(folder / "moved.safetensors").intercept, loaded.intercept)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    safle("export", "model.safetensors", "-o", "model.onnx")
    session = runtime.InferenceSession(folder / "model.onnx")
    features = digits[0][600:800].astype(np.float32)
    scores, shares = session.run(["scores", "probabilities"], {"features": features})
    assert np.array_equal(scores, loaded.decision_function(features))
    assert np.allclose(shares, loaded.predict_proba(features), rtol=1e-9, atol=1e-12)


def test_it_goes_through_the_estimator(digits):
    estimator = clone(SafleClassifier(encoder="linear", head=HEAD.name, priors="uniform"))
    fitted = estimator.fit(digits[0][:600], digits[1][:600])
    assert fitted.solution_.head == HEAD.name
    assert fitted.score(digits[0][600:800], digits[1][600:800]) > 0.7


def test_toy_head_scores_are_those_of_its_equation(digits):
    features, labels = digits
    encoder = make_encoder(public_sample(features), "linear")
    model = Model.of(encoder, solve(count(encoder, features, labels), head=HEAD.name))
    codes = encoder.encode(features).dense / encoder.layout.scales
    means = np.stack([codes[labels == name].mean(axis=0) for name in model.class_names])
    shares = np.bincount(labels) / len(labels)
    expected = codes @ means.T + np.log(shares) - (means**2).sum(axis=1) / 2
    found = model.decision_function(features)
    assert np.allclose(found, expected, atol=1e-4)


def test_toy_head_says_what_it_needs(digits):
    encoder = make_encoder(public_sample(digits[0]), "linear")
    with pytest.raises(InvalidInput, match="positive ridge"):
        solve(count(encoder, *digits), head=HEAD.name, ridge=0)


def test_a_model_of_a_head_that_nobody_registered_is_refused(digits, monkeypatch):
    encoder = make_encoder(public_sample(digits[0]), "linear")
    data = Model.of(encoder, solve(count(encoder, *digits), head=HEAD.name)).to_bytes()
    monkeypatch.delitem(HEADS, HEAD.name)
    with pytest.raises(WireError, match="expected one of averaged"):
        Model.from_bytes(data)
