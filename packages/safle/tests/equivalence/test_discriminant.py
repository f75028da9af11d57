"""The discriminant head against dense formulas and scikit-learn's LDA."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from safle import Model, solve
from safle.errors import SolveError
from safle.solver.heads import discriminant
from support.data_sets import KINDS, fixed_data
from support.reference import real_phi


def real_codes(data, statistics):
    """Phi in real units over the columns that were seen."""
    layout = data.encoder.layout
    rows = np.concatenate([statistics.codes, np.arange(layout.code_count, layout.dim)])
    return real_phi(data.encoder, data.features)[:, rows]


def centred(scores):
    return scores - scores.mean(axis=-1, keepdims=True)


class Ridged(BaseEstimator):
    """Empirical covariance of a class plus a ridge."""

    def __init__(self, ridge):
        self.ridge = ridge

    def fit(self, X):
        self.covariance_ = np.cov(X.T, bias=True) + self.ridge * np.eye(X.shape[1])
        return self


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", [0.5, 20.0])
def test_scores_and_posteriors_are_those_of_scikit_learn(kind, ridge):
    data = fixed_data(kind)
    statistics = data.count()
    solution = solve(statistics, ridge=ridge, head="discriminant")
    X = real_codes(data, statistics)
    reference = LinearDiscriminantAnalysis(
        solver="lsqr", covariance_estimator=Ridged(ridge / len(data))
    ).fit(X, data.labels)
    # What all classes share says nothing, and is left out.
    expected = centred(reference.decision_function(X))
    scores = X @ solution.weights + solution.intercept
    assert np.abs(scores - expected).max() <= 1e-8 * np.abs(expected).max()
    model = Model.of(data.encoder, solution)
    # The saved weights are rounded to 24 bits.
    assert np.allclose(model.decision_function(data.features), expected, atol=1e-4)
    assert np.array_equal(model.predict(data.features), reference.predict(X))
    posterior = reference.predict_proba(X)
    scores = model.decision_function(data.features)
    assert np.allclose(scipy.special.softmax(scores, axis=1), posterior, atol=1e-5)
    found = scipy.special.softmax(scores / model.temperature, axis=1)
    assert np.allclose(model.predict_proba(data.features), found, atol=1e-12)


@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 1.0])
def test_a_small_ridge_does_not_cost_the_saved_weights_their_bits(ridge):
    data = fixed_data("linear", samples=5_000)
    statistics = data.count()
    solution = solve(statistics, ridge=ridge, head="discriminant")
    model = Model.of(data.encoder, solution)
    X = data.encoder.encode(data.features).dense / 256
    exact = centred(X @ solution.weights + solution.intercept)
    assert np.allclose(centred(model.decision_function(data.features)), exact, atol=1e-4)


def test_a_singular_scatter_is_an_error_not_nonsense():
    sums = SimpleNamespace(class_counts=np.array([3, 2]))
    base = SimpleNamespace(sums=sums, target_products=np.diag([3.0, 2.0]))
    with pytest.raises(SolveError, match="larger ridge"):
        discriminant.mix(base)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", [0.5, 100.0])
def test_averaged_lies_between_discriminant_and_stretched_least_squares(kind, ridge):
    data = fixed_data(kind)
    statistics = data.count()
    plain, lda, averaged = (
        solve(statistics, ridge=ridge, head=head)
        for head in ("least-squares", "discriminant", "averaged")
    )
    centred = plain.weights - plain.weights.mean(axis=1, keepdims=True)
    # Half way where classes are equally frequent, else nearer to the discriminant.
    counts = statistics.class_counts
    share = (counts.sum() ** 2 / (len(counts) * (counts**2).sum())) ** 2 / 2
    assert 0.4 < share < 0.5
    rest = (averaged.weights - (1 - share) * lda.weights) / share
    # What is not the discriminant's share is least squares, times one positive number.
    strength = np.vdot(rest, centred) / np.vdot(centred, centred)
    assert strength > 0
    assert np.allclose(rest, strength * centred, atol=1e-8 * np.abs(rest).max())
    assert np.allclose(averaged.intercept, (1 - share) * lda.intercept)
    # Both weigh alike: in the basis of least squares, their traces are equal.
    turned = np.linalg.lstsq(plain.weights, lda.weights, rcond=None)[0]
    turned -= turned.mean(axis=1, keepdims=True)
    assert np.trace(turned) == pytest.approx(strength * (len(turned) - 1), rel=1e-6)
