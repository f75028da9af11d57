"""Two ridges by evidence: units that help are kept, with a ridge of their own, others left out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from safle import (
    DeclaredMoments,
    DeclaredRange,
    Model,
    SafleClassifier,
    count,
    make_encoder,
    solve,
)
from safle.solver.choice import choose_ratio, without_units

SAMPLES = 400


def made(rule):
    """An encoder, and statistics of samples whose labels follow a rule."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(SAMPLES, 4))
    labels = (rule(features) + 0.3 * generator.normal(size=SAMPLES) > 0).astype(np.int64)
    encoder = make_encoder(DeclaredMoments(np.zeros(4), np.ones(4)), "table")
    return encoder, features, labels, count(encoder, features, labels)


def bent(features):
    return features[:, 0] * features[:, 1]


def straight(features):
    return features @ [0.2, -0.2, 0.1, 0.0]


def test_units_that_explain_labels_are_kept():
    encoder, features, labels, statistics = made(bent)
    solution = solve(statistics)
    assert solution.units_ratio <= 4
    assert (Model(encoder, solution).predict(features) == labels).mean() > 0.8
    assert solution.curve.criterion == "evidence"


def test_units_that_explain_nothing_are_left_out_of_a_smaller_model():
    encoder, features, labels, statistics = made(straight)
    solution = solve(statistics)
    assert solution.units_ratio == np.inf
    assert "units left out" in repr(solution)
    assert solution.units == 0 < encoder.layout.units
    fitted = SafleClassifier(encoder=encoder).fit(features, labels)
    assert fitted.units_ == 0
    assert SafleClassifier(encoder=encoder, criterion="gcv").fit(features, labels).units_ > 0
    assert not solution.weights[-encoder.layout.units :].any()
    model, one_ridge = Model(encoder, solution), Model(encoder, solve(statistics, criterion="gcv"))
    assert len(model.to_bytes()) < len(one_ridge.to_bytes())
    read = Model.from_bytes(model.to_bytes())
    assert np.array_equal(read.decision_function(features), model.decision_function(features))
    assert read.digest == model.digest


def test_few_samples_are_judged_by_cross_validation():
    """Fitted without a residual, they would have the highest evidence without a ridge."""
    features, labels = (some[:60] for some in load_digits(return_X_y=True))
    encoder = make_encoder(DeclaredRange(0, 16, feature_dim=64), "random-features", units=512)
    solution = solve(count(encoder, features, labels))
    assert solution.curve.criterion == "gcv"
    assert solution.ridge > 1


def test_weights_solve_the_system_with_both_ridges():
    _, _, _, statistics = made(bent)
    solution = solve(statistics, head="least-squares")
    real = np.ones(statistics.dim)
    scales = statistics.layout.scales
    real[len(statistics.codes) :] = 1 / scales
    ridges = np.full(statistics.dim, solution.ridge)
    ridges[-statistics.layout.units :] *= solution.units_ratio
    gram = statistics.gram_square() * real * real[:, None]
    expected = np.linalg.solve(gram + np.diag(ridges), statistics.cross * real[:, None])
    np.testing.assert_allclose(solution.weights, expected, atol=1e-9 * np.abs(expected).max())


def test_what_is_left_without_units_is_what_an_encoder_without_them_counts():
    _, _, _, statistics = made(bent)
    kept = without_units(statistics)
    dim = statistics.dim - statistics.layout.units
    assert np.array_equal(kept.gram_square(), statistics.gram_square()[:dim, :dim])
    assert np.array_equal(kept.cross, statistics.cross[:dim])
    kept.verify()


@pytest.mark.parametrize("rule", [bent, straight])
def test_the_choice_has_the_highest_evidence_of_the_samples_themselves(rule):
    encoder, features, labels, statistics = made(rule)
    chosen, curve = choose_ratio(statistics)
    codes = encoder.encode(features).dense / encoder.layout.scales
    columns, units = codes[:, :4], codes[:, 5:]
    y = labels - labels.mean()

    def evidence(ratio, ridge):
        parts = columns if ratio == np.inf else np.c_[columns, units / np.sqrt(ratio)]
        parts = parts - parts.mean(axis=0)
        covariance = np.eye(SAMPLES) + parts @ parts.T / ridge
        quadratic = y @ np.linalg.solve(covariance, y)
        return np.log(quadratic / SAMPLES) + np.linalg.slogdet(covariance)[1] / SAMPLES

    best = curve.scores.min()
    at = float(curve.ridges[np.argmin(curve.scores)])
    assert best == pytest.approx(evidence(chosen, at), abs=1e-6)
    for ratio in (0.25, 1.0, 16.0, np.inf):
        assert best <= evidence(ratio, at) + 1e-3


def test_probabilities_of_two_classes_are_near_the_true_ones():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(6_000, 4))
    truth = 1 / (1 + np.exp(1.5 - features @ [0.8, -0.5, 0.0, 0.0]))
    labels = (generator.random(6_000) < truth).astype(np.int64)
    encoder = make_encoder(DeclaredMoments(np.zeros(4), np.ones(4)), "table")
    model = Model(encoder, solve(count(encoder, features[:3_000], labels[:3_000])))
    found = model.predict_proba(features[3_000:])[:, 1]
    for own in np.array_split(np.argsort(found), 5):
        # Over five draws of the samples, the farthest of all fifths was 0.047 away.
        assert found[own].mean() == pytest.approx(truth[3_000:][own].mean(), abs=0.06)
