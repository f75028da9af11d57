"""Where thresholds come from: each kind against its textbook formula."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from safle import EmbeddingEncoder, LinearEncoder
from safle.encoders.calibration import declared_moments, declared_range, public_sample
from safle.errors import InvalidInput


def test_a_declared_range_has_the_moments_of_a_uniform():
    declared = declared_range(-2.0, 6.0, 2)
    grid = np.linspace(-2, 6, 200_001)
    assert declared.mean.tolist() == [2.0, 2.0]
    assert np.allclose(declared.deviation, grid.std(), rtol=1e-4)


def test_declared_moments_are_cut_at_gaussian_quantiles():
    mean, deviation = [1.0, -3.0, 0.0], [2.0, 0.5, 0.0]
    levels = declared_moments(mean, deviation).thresholds(4)
    for column in range(2):
        normal = NormalDist(mean[column], deviation[column])
        expected = [normal.inv_cdf(part / 5) for part in range(1, 5)]
        assert np.allclose(levels[:, column], expected, rtol=1e-12)
    assert (levels[:, 2] == 0).all()


@pytest.mark.parametrize(
    ("deviation", "expected"), [([2.0, 0.0], [2.0, 1.0]), (2.0, [2.0, 2.0])], ids=["own", "one"]
)
def test_declared_moments_are_kept_except_for_constants(deviation, expected):
    declared = declared_moments([1.0, 5.0], deviation)
    assert declared.mean.tolist() == [1.0, 5.0]
    assert declared.deviation.tolist() == expected
    assert declared.thresholds(1).tolist() == [[1.0, 5.0]]


def test_a_public_sample_is_cut_at_its_quantiles():
    sample = np.random.default_rng(0).gamma(2.0, size=(999, 3))
    levels = public_sample(sample).thresholds(4)
    below = (sample[None] <= levels[:, None]).mean(axis=1)
    assert np.allclose(below, np.array([0.2, 0.4, 0.6, 0.8])[:, None], atol=0.002)


def test_a_public_sample_standardises_to_mean_0_and_deviation_1():
    sample = np.random.default_rng(0).normal(3, 5, size=(2000, 4)).astype(np.float32)
    encoder = LinearEncoder.calibrated(public_sample(sample), fraction_bits=12)
    real = encoder.encode(sample).dense[:, :4] / 4096
    assert np.allclose(real.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(real.std(axis=0), 1, atol=1e-3)


@pytest.mark.parametrize("constant", [0.1, 0.7, -1e9 / 3, 1e100])
def test_a_constant_feature_gets_deviation_one(constant):
    sample = public_sample(np.full((777, 2), constant))
    assert sample.deviation.tolist() == [1.0, 1.0]


def test_the_type_of_a_public_sample_does_not_matter():
    sample = np.random.default_rng(0).integers(-5, 5, (50, 3))
    expected = EmbeddingEncoder.calibrated(public_sample(sample))
    for copy in (sample.astype(np.float16), sample.astype(np.float32), np.asfortranarray(sample)):
        assert EmbeddingEncoder.calibrated(public_sample(copy)) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: declared_range(1.0, 1.0, 2),
        lambda: declared_range(2.0, 1.0, 2),
        lambda: declared_range(-np.inf, 1.0, 2),
        lambda: declared_range(0.0, np.nan, 2),
        lambda: declared_range(0.0, 1.0, 0),
        lambda: declared_moments([0.0], [-1.0]),
        lambda: declared_moments([np.nan], [1.0]),
        lambda: declared_moments([0.0], [np.inf]),
        lambda: declared_moments(np.zeros((2, 3)), np.ones((2, 3))),
        lambda: declared_moments([0.0, 1.0], [1.0, 1.0, 1.0]),
        lambda: declared_moments([], []),
        lambda: public_sample(np.empty((0, 3))),
        lambda: public_sample(np.empty((3, 0))),
        lambda: public_sample(np.zeros(3)),
        lambda: public_sample(np.array([[1.0, np.inf]])),
        lambda: public_sample([["a"]]),
    ],
)
def test_calibration_refuses_invalid_arrays(make):
    with pytest.raises(InvalidInput):
        make()


def test_gaps_are_left_out_of_quantiles_and_moments():
    """Of each column on its own; a column of gaps alone is a constant one."""
    values = np.array([[1.0, np.nan, 5.0], [2.0, np.nan, np.nan], [9.0, np.nan, 7.0]])
    sample = public_sample(values)
    assert np.array_equal(sample.thresholds(1), [[2.0, 0.0, 6.0]])
    assert np.array_equal(sample.mean, [4.0, 0.0, 6.0])
    assert np.array_equal(sample.deviation, [np.std([1, 2, 9]), 1.0, 1.0])
