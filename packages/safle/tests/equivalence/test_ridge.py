"""The ridge chosen from sums alone, against the criteria computed from the samples."""

from __future__ import annotations

import numpy as np
import pytest

from safle import EmbeddingEncoder, LinearEncoder, Model, count, solve
from safle.encoders.calibration import declared_range
from safle.solver import reduction as reductions
from safle.solver import spectrum
from safle.solver.reduction import Reduction
from safle.solver.ridge import FLOOR, MARGIN, SUPPORTED, ridge_curve
from support.data_sets import KINDS, fixed_data
from support.reference import real_phi


def real_data(data):
    """Phi in real units, and one-hot labels."""
    return real_phi(data.encoder, data.features), np.eye(3)[data.labels]


@pytest.mark.parametrize("kind", KINDS)
def test_gcv_is_that_of_the_hat_matrix(kind):
    data = fixed_data(kind)
    curve = solve(data.count(), criterion="gcv").curve
    Phi, Y = real_data(data)
    n = len(data)
    C = Phi.T @ Phi
    for ridge, score, freedom in zip(
        curve.ridges, curve.scores, curve.degrees_of_freedom, strict=True
    ):
        H = Phi @ np.linalg.solve(C + ridge * np.eye(len(C)), Phi.T)
        if n - np.trace(H) < 0.01 * n:
            continue
        expected = n * max(np.sum((Y - H @ Y) ** 2), FLOOR * n) / (n - np.trace(H)) ** 2
        assert freedom == pytest.approx(np.trace(H), rel=1e-6)
        assert score == pytest.approx(expected, rel=1e-5)
    # The largest ridge that the information criterion leaves some support, for three classes.
    worse = curve.scores / curve.scores.min() - 1
    supported = worse <= SUPPORTED / (n * 2)
    assert curve.best == curve.ridges[supported].max()


def test_ridge_of_many_samples_is_the_lowest_point():
    """From n (K - 1) = 100,000 on, samples tell more than the margin for rounding allows."""
    nodes = np.array([1.0, 30.0, 1e4])
    measured = spectrum.Spectrum(nodes, np.ones((3, 1)), nodes * 20, float(nodes.sum()), rank=3)
    margins = []
    for n, classes in ((5_000, 3), (50_000, 3), (11_112, 10), (100_000, 2)):
        curve = ridge_curve(measured, sample_count=n, class_count=classes)
        margins.append(curve.margin / curve.scores.min())
    assert margins == pytest.approx([1e-3, MARGIN, MARGIN, MARGIN], rel=1e-12)
    assert ridge_curve(measured, sample_count=9, class_count=1).margin > 0


@pytest.mark.filterwarnings("error")
def test_a_ridge_that_leaves_no_freedom_leaves_no_warning():
    nodes = np.array([1.0, 30.0, 1e4])
    # A quadrature may find more degrees of freedom than there are samples.
    measured = spectrum.Spectrum(nodes, np.full((3, 1), 1.1), nodes, 10_031.0, rank=3)
    curve = ridge_curve(measured, sample_count=3, class_count=2)
    assert curve.degrees_of_freedom[0] == 3
    assert not np.isnan(curve.residuals).any()


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_is_the_marginal_likelihood_of_the_labels(kind):
    data = fixed_data(kind)
    statistics = data.count()
    Phi, Y = real_data(data)
    n, K = Y.shape
    # Of one ridge for all columns; `test_blocks` has the evidence of two.
    measured = spectrum.spectrum_of(Reduction(statistics))
    curve = ridge_curve(measured, sample_count=n, class_count=K, criterion="evidence")
    for ridge, score in zip(curve.ridges[::3], curve.scores[::3], strict=True):
        # Weights of variance 1/ridge and unit noise give the labels this covariance.
        S = np.eye(n) + Phi @ Phi.T / ridge
        noise = np.sum(Y * np.linalg.solve(S, Y)) / (n * K)
        expected = np.log(noise) + np.linalg.slogdet(S)[1] / n
        if noise * K > 1e-5:
            assert score == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert curve.criterion == "evidence"


def test_a_probed_spectrum_chooses_the_decomposed_ones_ridge(digits, monkeypatch):
    features, labels = digits
    encoder = EmbeddingEncoder.calibrated(declared_range(0, 16, 64), buckets=8, group_size=6)
    statistics = count(encoder, features, labels)
    reduction = Reduction(statistics)
    assert 1_500 < reduction.reduced_dim < 2_500
    sampled = spectrum.spectrum_of(reduction)
    monkeypatch.setattr(reductions, "MAX_SMALL_RANK", 2_500)
    whole = spectrum.spectrum_of(reduction)
    for criterion in ("gcv", "evidence"):
        options = {"sample_count": len(labels), "class_count": 10, "criterion": criterion}
        exact, probed = ridge_curve(whole, **options), ridge_curve(sampled, **options)
        assert abs(np.log2(probed.best / exact.best)) < 0.51
    freedom = exact.degrees_of_freedom
    there = np.interp(np.log(exact.ridges), np.log(probed.ridges), probed.degrees_of_freedom)
    some = freedom < 0.5 * len(labels)
    assert np.allclose(there[some], freedom[some], rtol=0.05, atol=0.5)


@pytest.mark.slow
def test_more_classes_than_probes_choose_the_same_ridge(monkeypatch):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 60, 4_000)
    features = generator.normal(size=(60, 40))[labels] + 1.5 * generator.normal(size=(4_000, 40))
    encoder = EmbeddingEncoder.calibrated(declared_range(-2, 2, 40), buckets=6, group_size=4)
    statistics = count(encoder, features, labels)
    reduction = Reduction(statistics)
    options = {"sample_count": 4_000, "class_count": 60}
    found = []
    for largest in (10_000, 10):
        monkeypatch.setattr(reductions, "MAX_SMALL_RANK", largest)
        found.append(ridge_curve(spectrum.spectrum_of(reduction), **options))
    exact, probed = found
    assert abs(np.log2(probed.best / exact.best)) < 1.01


def test_large_problems_are_probed_and_small_ones_decomposed(monkeypatch):
    statistics = fixed_data("embedding", samples=300, feature_dim=20).count()
    exact = solve(statistics)
    monkeypatch.setattr(reductions, "MAX_SMALL_RANK", 10)
    probed = solve(statistics)
    assert not np.array_equal(exact.curve.scores, probed.curve.scores)
    assert abs(np.log2(probed.ridge / exact.ridge)) < 0.51


@pytest.mark.parametrize("criterion", ["gcv", "evidence"])
def test_the_digits_are_read_as_well_as_measured_before(digits, criterion):
    features, labels = digits
    embedding = EmbeddingEncoder.calibrated(declared_range(0, 16, 64), buckets=8, group_size=6)
    linear = LinearEncoder.calibrated(declared_range(0, 16, 64))
    accuracy = {}
    for name, encoder in (("embedding", embedding), ("linear", linear)):
        statistics = count(encoder, features[:1297], labels[:1297])
        model = Model.of(encoder, solve(statistics, criterion=criterion))
        accuracy[name] = (model.predict(features[1297:]) == labels[1297:]).mean()
    assert accuracy["embedding"] > accuracy["linear"] + 0.02
    assert accuracy["embedding"] >= 0.94


def test_the_chosen_ridge_is_on_a_grid_that_rounding_does_not_move():
    for criterion in ("gcv", "evidence"):
        curve = solve(fixed_data().count(), criterion=criterion).curve
        steps = np.log2(curve.ridges) * 2
        assert np.allclose(steps, np.rint(steps), atol=1e-5)
        assert np.allclose(np.diff(np.rint(steps)), 1)
        assert curve.criterion == criterion
