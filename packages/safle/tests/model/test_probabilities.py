"""Probabilities worth the name: a temperature from the statistics alone, and moved by priors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import safle
from safle import (
    LinearEncoder,
    Model,
    count,
    declared_range,
    evaluate,
    fit_temperature,
    load_model,
    make_encoder,
    solve,
    write,
)
from safle.errors import InvalidInput, WireError
from safle_private.noise import plan_noise, publish
from support import command

BINS = 15


def calibration_error(p: np.ndarray, labels: np.ndarray) -> float:
    """Written down again, from single answers."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == labels
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs((sure - right)[bins == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / len(labels))


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_the_default_keeps_its_promises_in_five_folds(load: Any) -> None:
    features, labels = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    p = cross_val_predict(
        safle.SafleClassifier(), features, labels, cv=folds, method="predict_proba"
    )
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    other = cross_val_predict(logistic, features, labels, cv=folds, method="predict_proba")
    assert calibration_error(p, labels) <= 0.02
    assert log_loss(labels, p) <= 1.3 * log_loss(labels, other)


@pytest.fixture(scope="module")
def digits() -> tuple[safle.Encoder, np.ndarray, np.ndarray]:
    features, labels = load_digits(return_X_y=True)
    encoder = safle.make_encoder(safle.declared_range(0, 16, feature_dim=64), units=128)
    return encoder, features, labels


def test_a_temperature_makes_answers_less_sure_and_changes_none(digits: Any) -> None:
    encoder, features, labels = digits
    solution = solve(safle.count(encoder, features[:600], labels[:600]))
    model = Model.of(encoder, solution)
    assert model.temperature is not None
    assert model.temperature == solution.temperature > 1
    scores = model.decision_function(features[600:])
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    plain = raised / raised.sum(axis=1, keepdims=True)
    p = model.predict_proba(features[600:])
    assert np.array_equal(p.argmax(axis=1), model.predict(features[600:]))
    assert calibration_error(p, labels[600:]) < 0.7 * calibration_error(plain, labels[600:])
    assert log_loss(labels[600:], p) < 0.5 * log_loss(labels[600:], plain)


def test_a_saved_temperature_is_kept_and_checked(digits: Any) -> None:
    encoder, features, labels = digits
    model = Model.of(encoder, solve(safle.count(encoder, features[:300], labels[:300])))
    data = model.to_bytes()
    again = Model.from_bytes(data)
    assert (again.temperature, again.to_bytes()) == (model.temperature, data)
    written = f'\\"temperature\\":\\"{model.temperature.hex()}\\"'.encode()
    assert data.count(written) == 1
    negative = written.replace(b"0x1.", b"-0x1")[: len(written)]
    with pytest.raises(WireError):
        Model.from_bytes(data.replace(written, negative))


def test_least_squares_has_no_temperature(digits: Any) -> None:
    encoder, features, labels = digits
    counted = safle.count(encoder, features[:100], labels[:100])
    assert Model.of(encoder, solve(counted, head="least-squares")).temperature is None


@pytest.mark.parametrize("head", ["averaged", "discriminant"])
def test_priors_are_those_of_bayes(digits: Any, head: Any) -> None:
    encoder, features, labels = digits
    some = np.isin(labels, (3, 8, 9)) & ~((labels == 3) & (np.arange(len(labels)) > 400))
    counted = safle.count(encoder, features[some], labels[some])
    plain = Model.of(encoder, solve(counted, head=head))
    priors = {3: 0.5, 8: 0.25, 9: 0.25}
    moved = Model.of(encoder, solve(counted, head=head, priors=priors))
    weights = np.array([priors[name] for name in (3, 8, 9)]) / counted.class_counts
    expected = plain.predict_proba(features) * weights
    expected /= expected.sum(axis=1, keepdims=True)
    assert moved.predict_proba(features) == pytest.approx(expected, abs=1e-5)
    alike = solve(counted, head=head, priors="uniform")
    assert Model.of(encoder, alike).to_bytes() == (
        Model.of(encoder, solve(counted, head=head, priors=dict.fromkeys(priors, 1.0))).to_bytes()
    )


def test_priors_are_checked(digits: Any, tmp_path: Path) -> None:
    encoder, features, labels = digits
    counted = safle.count(encoder, features[:100], labels[:100])
    for priors, words in (
        ({3: 0.5}, "a prior for each class"),
        (dict.fromkeys(range(10), -1.0), "positive number"),
        ("even", "expected 'uniform'"),
    ):
        with pytest.raises(InvalidInput, match=words):
            solve(counted, priors=priors)
    with pytest.raises(InvalidInput, match="no priors"):
        solve(counted, head="least-squares", priors="uniform")
    encoder.save(tmp_path / "encoder.safetensors")
    safle.write(tmp_path / "total.stats", counted)
    (tmp_path / "priors.csv").write_text("".join(f"{name},{name + 1}\n" for name in range(10)))
    (tmp_path / "bad.csv").write_text("0;1\n")
    solving = ("solve", "total.stats", "--encoder", "encoder.safetensors", "-o", "model")
    for name, code in (("priors.csv", 0), ("bad.csv", 1), ("nowhere.csv", 1)):
        command.safle(*solving, "--priors", name, folder=tmp_path, code=code)
    asked = {name: float(name + 1) for name in range(10)}
    model = Model.of(encoder, solve(counted, priors=asked))
    assert (tmp_path / "model").read_bytes() == model.to_bytes()


def test_counts_fit_the_temperature_of_the_quadratic_head(
    digits: Any, tmp_path: Path, safle: Any
) -> None:
    _, features, labels = digits
    sample = declared_range(0, 16, feature_dim=64)
    encoder = make_encoder(sample, "linear", by_class=True)
    parts = slice(600, 1000), slice(1000, 1400)
    counted = count(encoder, features[:600], labels[:600])
    model = Model.of(encoder, solve(counted, head="quadratic"))
    model.save(tmp_path / "model.safetensors")
    sites = []
    for at, part in enumerate(parts):
        sites.append(str(tmp_path / f"{at}.eval"))
        write(sites[-1], evaluate(model, features[part], labels[part]))
    files = [str(tmp_path / name) for name in ("model.safetensors", "fitted.safetensors")]
    assert "divided by the temperature" in safle(
        "fit-temperature", files[0], *sites, "-o", files[1]
    )
    made, held, true = load_model(files[1]), features[600:1400], labels[600:1400]
    assert made.temperature is not None
    assert np.array_equal(made.predict(held), model.predict(held))
    # With ten classes the counts tell about which temperature is best, here as well as can be.
    losses = [
        log_loss(true, made.with_temperature(made.temperature * step).predict_proba(held))
        for step in (0.85, 1.0, 1.15)
    ]
    assert losses[1] == min(losses)
    # The same counts twice would make the sites more alike, and surer, than they are.
    copied = shutil.copy(sites[0], tmp_path / "copied.eval")
    for asked in (["evaluate"], ["fit-temperature", files[0], "-o", str(tmp_path / "twice")]):
        refused = safle(*asked, sites[0], str(copied), code=1)
        assert f"the same counts are in {sites[0]} already; leave one out" in " ".join(
            refused.split()
        )
    # Another model's counts are not its own, and with a temperature it is another model.
    again = str(tmp_path / "again.safetensors")
    assert "evaluate the same model" in safle(
        "fit-temperature", files[1], *sites, "-o", again, code=1
    )


def test_counts_fit_the_temperature_of_a_model_of_noisy_sums() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 9000)
    features = generator.normal(0, 1, (9000, 8)) + 0.6 * np.eye(3, 8)[labels]
    encoder = LinearEncoder.publishable(declared_range(-4, 5, feature_dim=8))
    exact = count(encoder, features[:4000], labels[:4000])

    def draw(size: int, scale: float) -> np.ndarray:
        return np.rint(generator.normal(0, scale, size)).astype(np.int64)

    noisy = publish(exact, plan_noise(encoder.layout, 0.5, 1e-5), [0, 1, 2], draw=draw)
    model = Model.of(encoder, solve(noisy))
    assert model.temperature is None
    made = fit_temperature(model, evaluate(model, features[4000:6500], labels[4000:6500]))
    assert made.temperature is not None
    held, true = features[6500:], labels[6500:]
    before, after = (calibration_error(m.predict_proba(held), true) for m in (model, made))
    # 2,500 held-out samples in 15 bins leave about 0.02 by chance.
    assert after <= 0.04
    assert after < before


def test_temperature_of_two_classes_is_the_best(digits: Any) -> None:
    encoder, features, labels = digits
    two = np.isin(labels, (3, 8))
    features, labels = features[two], labels[two]
    # A few wrong labels: without an error, the best temperature is 0.
    wrong = np.where(np.arange(len(labels)) % 12 == 5, 11 - labels, labels)
    model = Model.of(encoder, solve(count(encoder, features[:100], wrong[:100])))
    counts = evaluate(model, features[100:], wrong[100:])
    found = fit_temperature(model, counts).temperature
    assert found is not None

    def loss(temperature: float) -> float:
        answers = model.with_temperature(temperature).predict_proba(features[100:])
        return log_loss(wrong[100:], answers)

    assert all(loss(found) <= loss(found * step) for step in (0.85, 1.15))


def test_fit_temperature_refuses_counts_that_none_fits(digits: Any) -> None:
    encoder, features, labels = digits
    counted = count(encoder, features[:100], labels[:100])
    plain = Model.of(encoder, solve(counted, head="least-squares"))
    with pytest.raises(InvalidInput, match="another head"):
        fit_temperature(plain, evaluate(plain, features[:9], labels[:9]))
    model = Model.of(encoder, solve(counted))
    with pytest.raises(InvalidInput, match="no sample"):
        fit_temperature(model, evaluate(model, features[:0], labels[:0]))
    with pytest.raises(InvalidInput, match="positive"):
        model.with_temperature(0.0)
