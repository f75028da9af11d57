"""A policy with k = 10 bounds what a server reconstructs, whatever encoder or model it chose.

The attacks are run as a server would: on the sums, with an encoder or a model of its own making.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import (
    EmbeddingEncoder,
    LinearEncoder,
    Model,
    Table,
    count,
    declared_range,
    join_cells,
    make_encoder,
    solve,
)
from safle.errors import PolicyRefused
from safle.site.counting import count_table, evaluate_table
from safle.site.policy import Policy
from safle.site.release import Release
from safle.solver.heads import FittedHead
from safle.statistics.exposure import count_own_codes, find_exposure
from support.data_sets import KINDS, draw_encoder, random_calibration

TEN = Policy(least_cell=10)
OLD = Policy(least_samples=50, least_per_class=5, most_columns_per_sample=0.5)
"""The policy of the issue, without the rule on cells."""
UNIT = declared_range(0, 1, feature_dim=10)


def judged(encoder, features, labels, policy=TEN):
    """Count a table as a site does; None if the policy lets it out, else the reason."""
    table = Table(np.asarray(features, float), np.asarray(labels))
    total, rows, disguises = count_table(
        encoder, table, where="a", allow_outside=True, least_cell=policy.least_cell
    )
    release = Release.of(total, "", rows, disguises)
    try:
        policy.check(release)
    except PolicyRefused as refused:
        return str(refused)
    return None


def ward(samples=2_000, features=10):
    generator = np.random.default_rng(0)
    return generator.uniform(size=(samples, features)), np.arange(samples) % 2


def fine_buckets():
    options = {"bucketing": "integer", "buckets": 95, "group_size": 1}
    return make_encoder(UNIT, "embedding", **options)


def test_pair_counts_give_back_all_samples_without_the_rule():
    features, labels = ward()
    encoder = fine_buckets()
    statistics = count(encoder, features, labels)
    symbols, owners = join_cells(statistics)
    codes = encoder.encode(features).symbols.astype(np.int64) + encoder.layout.bases[:-1]
    rebuilt = statistics.codes[symbols]
    assert Counter(map(tuple, rebuilt.tolist())) == Counter(map(tuple, codes.tolist()))
    truth = {(*row, label) for row, label in zip(codes.tolist(), labels.tolist(), strict=True)}
    sure = owners >= 0
    assert {
        (*row, one) for row, one in zip(rebuilt[sure].tolist(), owners[sure], strict=True)
    } <= truth
    exposure = find_exposure(statistics)
    assert exposure.reconstructed == 2_000
    assert exposure.summary.endswith("the attack that we ran reconstructed 2,000 of 2,000")
    assert judged(encoder, features, labels, OLD) is None
    assert "least_cell: a cell of 1" in judged(encoder, features, labels)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), samples=st.integers(10, 300), values=st.integers(1, 9))
@settings(max_examples=40)
def test_policy_lets_nothing_through_that_the_attack_can_use(kind, seed, samples, values):
    generator = np.random.default_rng(seed)
    encoder = draw_encoder(kind, random_calibration(int(generator.integers(1, 5)), seed), generator)
    features = generator.integers(0, values, (samples, encoder.feature_dim)) / 4 - 1.0
    labels = generator.integers(0, 3, samples)
    # Few different rows: the policy counts each once, so a little noise tells most of them apart.
    features += generator.choice([0.0, 1e-3], features.shape)
    if judged(encoder, features, labels) is not None:
        return
    unique = np.unique(np.column_stack([features, labels]), axis=0)
    statistics = count(encoder, unique[:, :-1], unique[:, -1].astype(int), allow_outside=True)
    assert not len(join_cells(statistics)[1])
    assert not count_own_codes(statistics)
    assert statistics.class_counts.min() >= 10
    assert find_exposure(statistics).reconstructed == 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("linear", {}),
        ("linear", {"by_class": True}),
        ("random-features", {"units": 40}),
        ("embedding", {"bucketing": "integer", "buckets": 4, "group_size": 1}),
        ("embedding", {"bucketing": "binary-overlap", "buckets": 4, "group_size": 1}),
        ("embedding", {"bucketing": "one-hot", "buckets": 3, "group_size": 2}),
        ("table", {"units": 40}),
    ],
)
def test_an_honest_encoder_for_many_samples_is_let_through(kind, options):
    """Without this, a policy that refuses everything would pass the theorem."""
    assert judged(make_encoder(UNIT, kind, **options), *ward(4_000)) is None


def with_first(mean, deviation):
    """A linear encoder whose first feature is calibrated by the server as it likes."""
    means = np.full(10, 0.5)
    deviations = np.full(10, 0.3)
    means[0] = mean
    deviations[0] = deviation
    return LinearEncoder(means, deviations)


@pytest.mark.parametrize("apart", [1, 3, 9])
def test_a_range_that_sets_few_samples_apart_is_a_cell(apart):
    features, labels = ward()
    border = np.sort(features[:, 0])[-apart - 1 :][:2].mean()
    encoder = with_first(border, 1e-12)
    # The attack: all other samples have one code, and products with it give theirs away.
    dense = encoder.encode(features).dense.astype(np.int64)
    assert sorted(Counter(dense[:, 0].tolist()).values()) == [apart, 2_000 - apart]
    gram = count(encoder, features, labels).gram_square()
    usual = dense[:, 0].min()
    hidden = (gram[0] - usual * gram[-1] // dense[0, -1]) // (dense[:, 0].max() - usual)
    assert np.array_equal(hidden, dense[dense[:, 0] > usual].sum(axis=0))
    assert judged(encoder, features, labels, OLD) is None
    # With each class, a part of them.
    assert re.search(rf"a cell of [1-{apart}] in disguise", judged(encoder, features, labels))


def test_a_code_that_outweighs_all_others_is_refused_though_none_is_usual():
    """Rounding tells the other samples apart by one step; one sample has the largest code."""
    features, labels = ward()
    features[0, 0] = 1e6
    encoder = with_first(0.5, 0.5 * 256)
    codes = encoder.encode(features).dense[:, 0]
    assert max(Counter(codes.tolist()).values()) < 1_100
    said = judged(encoder, features, labels)
    assert "a sample with 100% of the weight of a sum of columns" in said


def test_policy_refuses_columns_that_agree_on_almost_all_samples():
    """A feature that occurs twice: the server moves the second threshold a little."""
    features, labels = ward()
    features[:, 1] = features[:, 0]
    order = np.sort(features[:, 0])
    borders = order[[999, 1_002]] + 1e-9
    encoder = EmbeddingEncoder(
        [[*borders, *[0.5] * 8]], bucketing="binary-overlap", buckets=1, group_size=1
    )
    assert judged(encoder, features, labels, OLD) is None
    assert "a cell of 3;" in judged(encoder, features, labels)
    means = np.append(borders, np.full(8, 0.5))
    linear = LinearEncoder(means, np.append([1e-12, 1e-12], np.full(8, 0.3)))
    # With each class, a part of them.
    assert re.search("a cell of [123] in disguise", judged(linear, features, labels))


def test_differences_of_thermometers_are_cells():
    """Counts of pairs of digits are large, and four of them give a pair of levels."""
    features, labels = ward(4_000)
    # One sample alone between two thresholds of two features; both bands have many samples.
    inside = (features[:, :2] > 0.5).all(axis=1) & (features[:, :2] < 0.6).all(axis=1)
    features = features[~inside | (np.cumsum(inside) == 1)]
    labels = labels[: len(features)]
    thresholds = np.tile([[0.5], [0.6]], (1, 10))
    options = {"bucketing": "binary-overlap", "buckets": 2, "group_size": 1}
    encoder = EmbeddingEncoder(thresholds, **options)
    statistics = count(encoder, features, labels)
    gram = statistics.gram_square()
    of = {}
    symbols = encoder.encode(features).symbols
    for feature in (0, 1):
        for level, threshold in enumerate((0.5, 0.6)):
            above = (features[:, feature] > threshold).astype(int)
            table = np.flatnonzero((symbols == above[:, None]).all(axis=0))[0]
            of[feature, level] = statistics.offsets[table] + 1
    cells = [gram[of[0, i], of[1, j]] for i, j in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert min(cells) > 500
    assert cells[0] - cells[1] - cells[2] + cells[3] == 1
    assert "a cell of 1 in disguise" in judged(encoder, features, labels)


def judged_answers(model, features, labels, policy=TEN):
    """Evaluate a model as a site does; None if the policy lets the counts out, else the reason."""
    table = Table(np.asarray(features, float), np.asarray(labels))
    total, rows, disguises = evaluate_table(model, table, where="a", least_cell=policy.least_cell)
    release = Release.of(total, "", rows, disguises)
    try:
        policy.check(release)
    except PolicyRefused as refused:
        return str(refused)
    return None


def asking(borders, columns=1):
    """A model of the server's making: an invented class asks whether a value exceeds a border.

    The class is never the answer, and the bin of its probability, e^-50 or e^-49, is the reply.
    """
    thresholds = np.tile(np.array(borders)[:, None], (1, columns))
    options = {"bucketing": "binary-overlap", "buckets": len(borders), "group_size": 1}
    encoder = EmbeddingEncoder(thresholds, **options)
    probe = np.array(
        [[0.0] * columns, [1.0] * columns, *([border] * columns for border in borders)]
    )
    names = [*(f"ask {place}" for place in range(len(borders))), "ill"]
    statistics = count(encoder, np.resize(probe, (len(names), columns)), names)
    solution = solve(statistics)
    weights = np.zeros((len(solution.codes), len(names)))
    for table, size in enumerate(encoder.layout.table_sizes):
        above = [
            encoder.encode([[border + 1e-9] * columns]).symbols[0, table] for border in borders
        ]
        asked = above.index(1) if 1 in above else 0
        yes = encoder.layout.bases[table] + 1
        weights[np.flatnonzero(solution.codes == yes), asked] = 1.0
        assert size == 2
    intercept = np.append(np.full(len(borders), -50.0), 0.0)
    asking_head = FittedHead("averaged", solution.ridge, weights, intercept, temperature=1.0)
    return Model(encoder, solution.origin, asking_head)


def test_invented_classes_read_cells_of_one_without_the_rule():
    values, _ = ward(200, 1)
    values[0] = 0.995
    values = values[(values[:, 0] < 0.98) | (values[:, 0] == 0.995)]
    labels = ["ill"] * len(values)
    model = asking([0.25, 0.5, 0.99])
    counts = evaluate_table(model, Table(values, np.array(labels)), where="a")[0]
    assert counts.class_counts.tolist() == [0, 0, 0, len(values), 0]
    replies = [sorted(counts.scores[place, 0][counts.scores[place, 0] > 0]) for place in range(3)]
    assert replies[2] == [1, len(values) - 1]
    assert judged_answers(model, values, labels, OLD) is None
    assert "least_cell: a cell of 1;" in judged_answers(model, values, labels)


def test_differences_of_answers_are_cells():
    """Two invented classes ask for sets that differ by one sample, and all counts are large."""
    values = np.linspace(0, 1, 401)[:, None]
    labels = ["ill"] * 401
    assert judged_answers(asking([0.25, 0.5]), values, labels) is None
    one_apart = asking([0.5 + 0.5 / 400, 0.5 + 1.5 / 400])
    counts = evaluate_table(one_apart, Table(values, np.array(labels)), where="a")[0]
    cells = np.concatenate([table[table > 0] for table in counts.cells])
    assert cells.min() >= 199
    replies = [sorted(table[table > 0].tolist()) for table in counts.scores[:2, 0]]
    assert replies == [[200, 201], [199, 202]]
    assert "a cell of 1 in disguise" in judged_answers(one_apart, values, labels)


def test_evaluation_counts_of_an_ordinary_model_have_small_cells():
    features, labels = ward(300)
    encoder = make_encoder(UNIT, "linear")
    model = Model.of(encoder, solve(count(encoder, features, labels)))
    assert judged_answers(model, features, labels, OLD) is None
    assert "least_cell: a cell of" in judged_answers(model, features, labels)
