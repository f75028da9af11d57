"""One ridge for all columns: by evidence beside few random columns, else by cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from safle import (
    Model,
    count,
    declared_moments,
    declared_range,
    make_encoder,
    of_schema,
    public_sample,
    solve,
)
from safle.tables.schema import Column, Schema

SAMPLES = 400


def made(rule):
    """An encoder, and statistics of samples whose labels follow a rule."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(SAMPLES, 4))
    labels = (rule(features) + 0.3 * generator.normal(size=SAMPLES) > 0).astype(np.int64)
    encoder = make_encoder(declared_moments(np.zeros(4), np.ones(4)), "table")
    return encoder, features, labels, count(encoder, features, labels)


def bent(features):
    return features[:, 0] * features[:, 1]


def straight(features):
    return features @ [0.2, -0.2, 0.1, 0.0]


def test_random_columns_that_explain_labels_are_used():
    encoder, features, labels, statistics = made(bent)
    solution = solve(statistics)
    assert (Model.of(encoder, solution).predict(features) == labels).mean() > 0.8
    assert solution.curve.criterion == "evidence"


def test_random_columns_that_explain_nothing_do_no_harm():
    encoder, features, labels, statistics = made(straight)
    fresh = np.random.default_rng(1).normal(size=(2_000, 4))
    plain = make_encoder(declared_moments(np.zeros(4), np.ones(4)), "linear")
    right = straight(fresh) > 0
    found = [
        (Model.of(own, solve(count(own, features, labels))).predict(fresh) == right).mean()
        for own in (encoder, plain)
    ]
    assert found[0] > found[1] - 0.02
    assert solve(statistics).curve.criterion == "evidence"


@pytest.mark.parametrize(
    ("kind", "settings"), [("linear", {}), ("random-features", {"units": 600}), ("embedding", {})]
)
def test_without_random_columns_or_with_many_cross_validation_chooses(kind, settings):
    _, features, labels, _ = made(bent)
    encoder = make_encoder(declared_range(-3, 3, feature_dim=4), kind, **settings)
    assert solve(count(encoder, features, labels)).curve.criterion == "gcv"


def test_choice_of_one_column_uses_cross_validation():
    schema = Schema((Column("sex", levels=("f", "m")),))
    encoder = make_encoder(of_schema(schema), "table", units=1, terms=1)
    statistics = count(encoder, np.ones((40, 1)), np.arange(40) % 2)
    assert solve(statistics).curve.criterion == "gcv"


def test_few_samples_are_judged_by_cross_validation():
    """Fitted without a residual, they would have the highest evidence without a ridge."""
    features, labels = (some[:60] for some in load_digits(return_X_y=True))
    encoder = make_encoder(declared_range(0, 16, feature_dim=64), "random-features", units=512)
    solution = solve(count(encoder, features, labels))
    assert solution.curve.criterion == "gcv"
    assert solution.ridge > 1


def test_random_columns_of_tables_have_a_quarter_of_their_value():
    """The same integers at four times the scale: sixteen times the ridge, beside the others."""
    features = made(bent)[1]
    moments = declared_moments(np.zeros(4), np.ones(4))
    scales = {
        kind: make_encoder(moments, kind, units=8, bits=4).layout.scales[-8:].tolist()
        for kind in ("random-features", "table")
    }
    assert scales == {"random-features": [4] * 8, "table": [16] * 8}
    assert make_encoder(moments, "table", bits=4).encode(features).dense[:, 5:].max() == 15


@pytest.mark.parametrize("rule", [bent, straight])
def test_the_evidence_is_that_of_the_samples_themselves(rule):
    encoder, features, labels, statistics = made(rule)
    curve = solve(statistics).curve
    columns = encoder.encode(features).dense / encoder.layout.scales
    columns = columns - columns.mean(axis=0)
    y = labels - labels.mean()
    for ridge, score in zip(curve.ridges[::6], curve.scores[::6], strict=True):
        covariance = np.eye(SAMPLES) + columns @ columns.T / ridge
        quadratic = y @ np.linalg.solve(covariance, y)
        expected = np.log(quadratic / SAMPLES) + np.linalg.slogdet(covariance)[1] / SAMPLES
        assert score == pytest.approx(expected, abs=1e-6)


def test_probabilities_of_two_classes_are_near_the_true_ones():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(6_000, 4))
    truth = 1 / (1 + np.exp(1.5 - features @ [0.8, -0.5, 0.0, 0.0]))
    labels = (generator.random(6_000) < truth).astype(np.int64)
    encoder = make_encoder(declared_moments(np.zeros(4), np.ones(4)), "table")
    model = Model.of(encoder, solve(count(encoder, features[:3_000], labels[:3_000])))
    found = model.predict_proba(features[3_000:])[:, 1]
    for own in np.array_split(np.argsort(found), 5):
        # Over five draws of the samples, the farthest of all fifths was 0.047 away.
        assert found[own].mean() == pytest.approx(truth[3_000:][own].mean(), abs=0.06)


@pytest.mark.parametrize(("criterion", "share"), [("auto", 0.5), ("gcv", 0.5), ("evidence", 1.0)])
def test_products_take_half_of_the_ridge_of_cross_validation(criterion, share):
    """Only of that: the evidence chooses a ridge of its own."""
    _, features, labels, _ = made(bent)
    encoder = make_encoder(public_sample(features), "products")
    solution = solve(count(encoder, features, labels), criterion=criterion)
    assert solution.ridge == share * solution.curve.best > 0
