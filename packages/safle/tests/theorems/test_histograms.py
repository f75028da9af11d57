"""Federated calibration: exact histograms, the same thresholds for any partition."""

from __future__ import annotations

import bisect
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safle import EmbeddingEncoder, decode, encode, make_encoder
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput
from safle.statistics.histogram import MAX_SAMPLES, Histogram
from support.data_sets import KINDS, declared_settings

QUARTERS = st.integers(-20, 20).map(lambda quarter: quarter / 4)


@st.composite
def counted(draw, least=1):
    """Features, and a grid with one range for all of them or one for each."""
    shape = (draw(st.integers(least, 30)), draw(st.integers(1, 3)))
    ranges = draw(st.sampled_from([1, shape[1]]))
    low = draw(arrays(np.float64, ranges, elements=st.integers(-4, 2).map(float)))
    # Bins whose width is a power of two: the borders, and what lies on them, are exact.
    width = draw(arrays(np.float64, ranges, elements=st.sampled_from([1.0, 2.0, 4.0, 8.0])))
    low, width = np.broadcast_to(low, shape[1]), np.broadcast_to(width, shape[1])
    grid = Histogram.empty(low, low + width, bins=2 ** draw(st.integers(0, 4)))
    return draw(arrays(np.float64, shape, elements=QUARTERS)), grid


@given(counted())
def test_counts_are_those_of_half_open_bins_with_under_and_overflow(case):
    features, grid = case
    expected = np.zeros((features.shape[1], grid.bins + 2), np.int64)
    for feature, (column, borders) in enumerate(zip(features.T, grid.edges, strict=True)):
        for value in column:
            expected[feature, bisect.bisect_right(borders.tolist(), value)] += 1
    assert np.array_equal(grid.count(features).counts, expected)


@given(counted())
def test_a_grid_for_each_feature_counts_each_as_if_it_were_alone(case):
    features, grid = case
    ends = zip(grid.low.tolist(), grid.high.tolist(), strict=True)
    own = [Histogram.empty(low, high, 1, bins=grid.bins) for low, high in ends]
    whole = grid.count(features[:9]) + grid.count(features[9:])
    alone = [each.count(features[:, at : at + 1]) for at, each in enumerate(own)]
    assert np.array_equal(whole.counts, np.concatenate([each.counts for each in alone]))
    for method in (
        lambda found: found.thresholds(3),
        lambda found: found.mean[None],
        lambda found: found.deviation[None],
    ):
        parts = [method(each.calibration()) for each in alone]
        assert np.array_equal(method(whole.calibration()), np.concatenate(parts, axis=1))
    assert decode(encode(whole), Histogram) == whole
    assert whole.find_coarse().tolist() == [
        at for at, each in enumerate(alone) if np.count_nonzero(each.counts) <= 2
    ]


@given(case=counted(), data=st.data(), count=st.integers(1, 6))
def test_any_partition_gives_the_same_thresholds_and_the_same_encoder(case, data, count):
    features, grid = case
    whole = grid.count(features)
    owner = data.draw(arrays(np.int64, len(features), elements=st.integers(0, 4)))
    order = data.draw(st.permutations(range(5)))
    total = reduce(add, (grid.count(features[owner == client]) for client in order))
    assert total == whole
    found = total.calibration()
    expected = whole.calibration()
    assert np.array_equal(found.thresholds(count), expected.thresholds(count))
    # Products need the samples themselves.
    kind = data.draw(st.sampled_from([kind for kind in KINDS if kind != "products"]))
    small = declared_settings(kind, units=9)
    made = make_encoder(found, kind, **small)
    assert made.to_bytes() == make_encoder(expected, kind, **small).to_bytes()
    assert encode(total) == encode(whole)


@given(case=counted(), count=st.integers(1, 6))
def test_thresholds_are_quantiles_up_to_one_bin(case, count):
    features, grid = case
    histogram = grid.count(features)
    width = (grid.high - grid.low) / grid.bins
    levels = histogram.calibration().thresholds(count)
    assert (np.diff(levels, axis=0) >= 0).all()
    assert (levels >= grid.low).all()
    assert (levels <= grid.high).all()
    for level in range(count):
        # The smallest value that at least this share of the samples does not exceed.
        rank = -(-(level + 1) * len(features) // (count + 1))
        exact = np.clip(np.sort(features, axis=0)[rank - 1], grid.low, grid.high)
        assert (np.abs(levels[level] - exact) <= width).all()


@given(case=counted())
def test_moments_are_those_of_the_binned_values(case):
    features, grid = case
    width = (grid.high - grid.low) / grid.bins
    binned = np.floor((features - grid.low) / width) * width + width / 2 + grid.low
    binned = np.where(features < grid.low, grid.low, binned)
    binned = np.where(features >= grid.high, grid.high, binned)
    found = grid.count(features).calibration()
    assert np.allclose(found.mean, binned.mean(axis=0), atol=1e-12)
    constant = np.ptp(binned, axis=0) == 0
    assert (found.deviation[constant] == 1).all()
    assert np.allclose(found.deviation[~constant], binned.std(axis=0)[~constant])


@given(case=counted(least=0))
def test_the_wire_gives_back_the_same_histogram(case):
    features, grid = case
    histogram = grid.count(features)
    data = encode(histogram)
    assert decode(data, Histogram) == histogram
    assert encode(decode(data, Histogram)) == data


@given(case=counted(), cut=st.integers(0, 30))
def test_batches_count_like_one_array(case, cut):
    features, grid = case
    batches = iter([features[:cut], features[cut:].astype(np.float32)])
    assert grid.count(batches) == grid.count(features)


def test_histograms_of_other_grids_are_refused_naming_both():
    features = np.zeros((2, 3))
    first = Histogram.empty(0, 1, 3, bins=8).count(features)
    for other in (
        Histogram.empty(0, 1, 3, bins=9).count(features),
        Histogram.empty(0, 2, 3, bins=8).count(features),
        Histogram.empty([-1, 0, 0], 1, bins=8).count(features),
        Histogram.empty(0, 1, 4, bins=8).count(np.zeros((2, 4))),
    ):
        with pytest.raises(
            EncoderMismatch, match=r"8 bins over 0 to 1, 3 features> and <.*, \d bins over"
        ):
            first + other
        assert first != other


def test_a_histogram_without_samples_adds_but_does_not_calibrate():
    empty = Histogram.empty(0, 1, 2, bins=4)
    full = Histogram.empty(0, 1, 2, bins=4).count(np.full((3, 2), 0.3))
    assert empty + full == full
    with pytest.raises(InvalidInput, match="empty"):
        empty.calibration()


def test_a_large_sum_is_exact_or_refused_never_wrapped():
    unit = Histogram.empty(0, 1, 1, bins=9).count(np.linspace(0, 1, 90, endpoint=False)[:, None])
    levels = unit.calibration().thresholds(8)
    total = unit
    while total.sample_count * 2 <= MAX_SAMPLES:
        total = total + total
        assert np.array_equal(total.calibration().thresholds(8), levels)
        encoder = EmbeddingEncoder.calibrated(
            total.calibration(), bucketing="integer", buckets=65_536, group_size=1
        )
        assert np.allclose(encoder.thresholds[:, 0], np.arange(1, 65_536) / 65_536)
    with pytest.raises(CountOverflow):
        total + total


@pytest.mark.parametrize(
    ("low", "high", "bins"),
    [
        (0.0, 0.0, 4),
        (1.0, 0.0, 4),
        (np.nan, 1.0, 4),
        (0.0, np.inf, 4),
        (-1.7e308, 1.7e308, 4),
        (0.0, 5e-324, 4),
        (1.0, np.nextafter(1.0, 2.0), 4),
        (0.0, 1.0, 0),
        (0.0, 1.0, 65_537),
        (0.0, 1.0, 2.5),
        ((0.0, 1.0), (1.0, 1.0), 4),
        ((0.0, 1.0), (1.0, np.nextafter(1.0, 2.0)), 4),
        ((0.0, 1.0), (1.0, 2.0, 3.0), 4),
        ((), (), 4),
        ((0.0,) * 1025, (1.0,) * 1025, 65_536),
    ],
)
def test_a_grid_that_cannot_tell_its_bins_apart_is_refused(low, high, bins):
    with pytest.raises(InvalidInput, match=r"range|bins|feature_dim"):
        Histogram.empty(low, high, 0 if isinstance(low, tuple) else 1, bins=bins)


def test_a_grid_of_more_features_than_an_encoder_has_is_refused_before_it_takes_memory():
    with pytest.raises(InvalidInput, match="at most 1048576"):
        Histogram.empty(0, 1, 1 << 46, bins=1)


@pytest.mark.parametrize(
    "counts",
    [
        np.zeros((2, 2), np.int64),
        np.zeros((3, 6), np.int64),
        np.zeros((0, 6), np.int64),
        np.zeros(6, np.int64),
        np.full((2, 6), -1),
        np.array([[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]),
        np.full((2, 6), 2**62),
    ],
)
def test_counts_of_no_data_set_are_refused(counts):
    with pytest.raises((InvalidInput, CountOverflow)):
        replace(Histogram.empty(0, 1, 2, bins=4), counts=counts)


def test_features_that_cannot_be_counted_are_refused():
    grid = Histogram.empty(0, 1, 2, bins=4)
    with pytest.raises(InvalidInput, match="sample 1, column 0"):
        grid.count(np.array([[0.0, 0.0], [np.nan, 0.0]]))
    with pytest.raises(InvalidInput, match="3 columns"):
        grid.count(iter([np.zeros((1, 2)), np.zeros((1, 3))]))
