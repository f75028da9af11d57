"""Cells that no single column shows: copies of a row, sums of columns, bins of two features.

Each test runs the attack first, on the sums that a server gets.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from safle import (
    EmbeddingEncoder,
    LinearEncoder,
    Model,
    Table,
    TableEncoder,
    count,
    declared_range,
    make_encoder,
    solve,
)
from safle.encoders.random_features import RandomFeatureEncoder
from safle.errors import PolicyRefused
from safle.site.counting import count_table, evaluate_table, histogram_table
from safle.site.policy import Policy
from safle.site.release import Release
from safle.site.shares import find_shares
from safle.statistics.histogram import Histogram

TEN = Policy(least_cell=10)
UNIT = declared_range(0, 1, feature_dim=10)
GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.uniform(size=(4_000, 10))
LABELS = np.arange(4_000) % 2
INTEGER = {"bucketing": "integer", "buckets": 4, "group_size": 1}


def judged(counts):
    """The policy's refusal of counts; None if it lets them out."""
    total, rows, disguises = counts
    release = Release.of(total, "", rows, disguises)
    try:
        TEN.check(release)
    except PolicyRefused as refused:
        return str(refused)
    return None


def counted(encoder, features, labels=LABELS):
    table = Table(features, labels)
    return count_table(encoder, table, where="a", allow_outside=True, least_cell=10)


def test_a_row_that_outweighs_a_cell_is_refused():
    encoder = make_encoder(UNIT, "embedding", **INTEGER)
    times = np.ones(4_000, np.int64)
    times[7] = 20_000
    counts = counted(encoder, FEATURES.repeat(times, axis=0), LABELS.repeat(times))
    # The attack: codes that occur more often than there are other samples are that patient's.
    total = counts[0]
    gram = total.gram_square()
    read = total.codes[gram.diagonal() > 10_000]
    codes = encoder.encode(FEATURES[7:8]).symbols[0] + encoder.layout.bases[:-1]
    assert np.array_equal(read, codes)
    assert "a cell of 1 in disguise" in judged(counts)
    assert "rows that are counted often" in judged(counts)


@pytest.mark.parametrize("kind", ["embedding", "linear"])
def test_rows_that_all_count_equally_often_are_let_through(kind):
    encoder = make_encoder(UNIT, kind, **(INTEGER if kind == "embedding" else {}))
    assert judged(counted(encoder, FEATURES.repeat(3, axis=0), LABELS.repeat(3))) is None


@pytest.mark.parametrize("apart", [2, 5, 9])
def test_policy_refuses_columns_whose_difference_is_a_cell(apart):
    """A feature that occurs twice: rounding borders are moved past the codes of few samples."""
    features = FEATURES.copy()
    features[:, 1] = features[:, 0]
    codes = (features[:, 0] - 0.5) / 0.3 * 256
    below = np.sort(np.floor(codes) + 0.5 - codes)
    below = below[below > 0]
    moved = below[apart - 1 : apart + 1].mean() / 256 * 0.3
    means = np.full(10, 0.5)
    means[1] -= moved
    encoder = LinearEncoder(means, np.full(10, 0.3))
    dense = encoder.encode(features).dense.astype(np.int64)
    difference = dense[:, 1] - dense[:, 0]
    assert (difference.sum(), np.abs(difference).sum()) == (apart, apart)
    # The attack: the difference of two rows of the gram sums all codes of these few samples.
    counts = counted(encoder, features)
    gram = counts[0].gram_square()
    assert np.array_equal(gram[1] - gram[0], dense[difference == 1].sum(axis=0))
    assert "fewer than 10 samples with 100% of the weight" in judged(counts)


def test_units_that_end_where_few_samples_begin_are_refused():
    """A unit of one feature is its linear code up to its largest code, and less beyond it."""
    border = np.sort(FEATURES[:, 0])[-6:-4].mean()
    deviations = np.full(10, 0.3)
    deviations[0] = (border - 0.5) * 64 / 255.5
    settings = {"terms": 1, "bits": 8, "fraction_bits": 6, "transform": "none", "by_class": False}
    encoder = RandomFeatureEncoder(np.full(10, 0.5), deviations, units=200, **settings)
    counts = counted(encoder, FEATURES)
    dense = encoder.encode(FEATURES).dense.astype(np.int64)
    units = dense[:, 11:]
    up = next(unit for unit in units.T if np.corrcoef(unit, dense[:, 0])[0, 1] > 0.8)
    down = next(unit for unit in units.T if np.corrcoef(unit, dense[:, 0])[0, 1] < -0.8)
    beyond = dense[:, 0] - up + down
    assert 0 < np.count_nonzero(beyond > 0) < 10
    assert re.search("of the weight of a sum of columns", judged(counts))


def test_symbols_that_differ_in_few_samples_are_refused():
    """Pairs of digits, of which one is moved a little: their difference and a third pair."""
    thresholds = np.tile([[0.3], [0.3], [0.7], [0.7]], (1, 4))
    thresholds[:, 0] = [0.3, 0.33, 0.66, 0.69]
    options = {"bucketing": "binary-overlap", "buckets": 4, "group_size": 2, "seed": 47}
    encoder = EmbeddingEncoder(thresholds, **options)
    features = np.random.default_rng(1).uniform(size=(4_000, 4))
    counts = counted(encoder, features)
    gram = counts[0].gram_square()
    assert gram[gram > 0].min() >= 10
    # The attack: a symbol is a part of another one, and what is left of that one has small cells.
    sizes = gram.diagonal()
    parts = np.argwhere((gram == sizes[:, None]) & (sizes[:, None] < sizes))
    left = np.concatenate([gram[whole] - gram[part] for part, whole in parts])
    assert 0 < left[left > 0].min() < 10
    assert re.search(r"a cell of \d in disguise", judged(counts))


@pytest.mark.parametrize("apart", [1, 9])
def test_remainders_that_few_samples_leave_are_refused(apart):
    """Whole years are multiples of 200 codes; few patients have a part of a year beside them."""
    features = FEATURES.copy()
    features[:, 0] = GENERATOR.integers(20, 90, 4_000)
    features[:apart, 0] += 0.005
    means = np.append(0.0, np.full(9, 0.5))
    encoder = LinearEncoder(means, np.append(256 / 200, np.full(9, 10.0)))
    dense = encoder.encode(features).dense.astype(np.int64)
    assert max(np.unique(dense[:, 0], return_counts=True)[1]) < 100
    # The attack: what is left of the products with this column are the codes of these samples.
    counts = counted(encoder, features)
    left = counts[0].gram_square()[0] % 200
    assert np.array_equal(left, dense[:apart].sum(axis=0) % 200)
    assert f"a cell of {apart} in disguise" in judged(counts)
    features[:apart, 0] -= 0.005
    assert judged(counted(encoder, features)) is None


def test_the_counts_of_three_codes_follow_from_their_sums():
    features = FEATURES.copy()
    features[:3, 0] = 2
    encoder = LinearEncoder(np.append(0.0, np.full(9, 0.5)), np.append(256, np.full(9, 0.3)))
    counts = counted(encoder, features)
    gram = counts[0].gram_square()
    total = gram[0, -1] // 256
    # The attack: of codes 0, 1 and 2, v^2 - v is not 0 for the last alone.
    assert (gram[0, 0] - total) // 2 == 3
    assert 1_000 < total < 3_000
    assert "a cell of 3 in disguise" in judged(counts)


def test_units_of_one_feature_are_a_thermometer_whose_levels_are_cells():
    """Of three units, a weighted sum is zero outside of an interval; two of these make a cell."""
    features = np.random.default_rng(0).uniform(-0.5, 0.5, size=(1_000, 2))
    settings = {"units": 60, "terms": 1, "bits": 8, "fraction_bits": 6}
    encoder = TableEncoder(np.zeros(2), np.full(2, 0.5), **settings)
    counts = counted(encoder, features, LABELS[:1_000])
    total = counts[0]
    units = total.dim - 60
    signs, thresholds = encoder.random.signs(), encoder.random.thresholds
    tents = []
    for feature in (0, 1):
        chosen = [j for j in np.argsort(thresholds, kind="stable") if signs[feature, j] > 0]
        places, first = np.unique(thresholds[chosen], return_index=True)
        chosen = np.array(chosen)[first]
        for low in range(len(places) - 2):
            sums = np.zeros(total.dim, np.int64)
            one, two = np.diff(places[low : low + 3])
            sums[units + chosen[low : low + 3]] = two, -one - two, one
            tents.append(sums)
    # The attack: products of two such sums, which follow from the gram.
    encoded = encoder.encode(features)
    phi = np.zeros((1_000, total.dim), np.int64)
    phi[:, units:] = encoded.dense[:, -60:]
    values = phi @ np.array(tents).T
    assert (np.count_nonzero(values, axis=0) >= 10).all()
    pairs = [(i, j) for i in range(len(tents)) for j in range(i)]
    alone = [(i, j) for i, j in pairs if np.count_nonzero(values[:, i] * values[:, j]) == 1]
    assert alone
    i, j = alone[0]
    weighed = tents[i] @ total.gram_square() @ tents[j]
    assert weighed == (values[:, i] * values[:, j]).max()
    assert re.search(r"a cell of \d in disguise", judged(counts))


def test_evaluation_counts_of_a_row_that_outweighs_others_are_refused():
    encoder = make_encoder(UNIT, "linear", fraction_bits=0)
    model = Model.of(encoder, solve(count(encoder, FEATURES, LABELS)))
    rows = np.resize(FEATURES[:2], (4_000, 10)) + 1e-9 * np.arange(4_000)[:, None]
    table = Table(rows, LABELS)
    assert judged(evaluate_table(model, table, where="a", least_cell=10)) is None
    times = np.ones(4_000, np.int64)
    times[7] = 1_000
    heavy = Table(rows.repeat(times, axis=0), LABELS.repeat(times))
    assert "in disguise" in judged(evaluate_table(model, heavy, where="a", least_cell=10))


def test_a_histogram_counts_each_different_row_once_for_the_policy():
    """A file in which three patients stand twelve times hides nobody."""
    grid = Histogram.empty(0, 1, feature_dim=1, bins=2)
    rows = np.repeat([[0.1], [0.2], [0.9]], 12, axis=0)
    counts = histogram_table(grid, Table(rows), where="a", least_cell=10)
    assert counts[0].counts.tolist() == [[0, 24, 12, 0]]
    assert "least_cell: a cell of 1;" in judged(counts)


def test_bins_of_two_features_that_differ_in_few_samples_are_refused():
    """The same column in two units: a server that writes the ranges moves a border a little."""
    values = FEATURES[:, :1]
    order = np.sort(values[:, 0])
    first, second = order[[1_999, 2_002]] + 1e-9
    grid = Histogram.empty([first - 1, second - 1], [first + 1, second + 1], bins=2)
    table = Table(np.concatenate([values, values], axis=1))
    counts = histogram_table(grid, table, where="a", least_cell=10)
    below = counts[0].counts[:, 1]
    assert below.min() > 1_000
    assert below[1] - below[0] == 3
    assert re.search("a cell of [123] in disguise", judged(counts))
    same = Histogram.empty(0, 1, feature_dim=2, bins=2)
    assert judged(histogram_table(same, table, where="a", least_cell=10)) is None


@pytest.mark.parametrize("few", [2, 5, 9])
def test_the_share_of_few_rows_is_found_among_columns_that_hide_it(few):
    generator = np.random.default_rng(few)
    columns = generator.normal(size=(500, 100))
    assert find_shares(lambda: [columns], few)[1] < 0.9
    hidden = np.zeros(500)
    hidden[generator.choice(500, few, replace=False)] = 1.0
    mixed = columns @ generator.normal(size=100)
    with_cell = np.column_stack([columns, hidden + mixed])
    _, share = find_shares(lambda: [with_cell[:300], with_cell[300:]], few)
    assert share == pytest.approx(1.0)
