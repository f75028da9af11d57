"""Counting at a site: what leaves, and each sample once for the policy."""

from dataclasses import replace

import numpy as np
import pytest

from safle import LinearEncoder, Model, SafleClassifier, Table, count, declared_range, evaluate
from safle.errors import InvalidInput
from safle.site.counting import count_table, describe_repeats, evaluate_table

FEATURES = np.random.default_rng(0).random((30, 3))
LABELS = np.arange(30) % 2
PLAIN = Table(FEATURES, LABELS)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr("safle.tables.table.BATCH", 8)


@pytest.fixture
def encoder():
    return LinearEncoder.calibrated(declared_range(0, 1, feature_dim=3))


def test_batches_add_up_to_the_whole(encoder):
    total, rows, _ = count_table(encoder, PLAIN, where="t.csv")
    assert total is rows
    assert total == count(encoder, FEATURES, LABELS)


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i4"])
def test_a_row_that_repeats_is_counted_once_for_the_policy(encoder, dtype):
    features = (100 * FEATURES).astype(dtype).repeat(3, axis=0)
    labels = LABELS.astype(str).repeat(3)
    labels[0] = "of another class"
    table = Table(features, labels)
    total, rows, _ = count_table(encoder, table, where="t.csv", allow_outside=True)
    assert total == count(encoder, features, labels, allow_outside=True)
    expected = np.append(np.arange(0, 90, 3), 2)
    assert rows == count(encoder, features[expected], labels[expected], allow_outside=True)


def different_rows(encoder, features, labels):
    _, rows, _ = count_table(encoder, Table(features, labels), where="t.csv", allow_outside=True)
    return rows.sample_count


def test_rows_that_differ_in_one_column_of_many_are_not_taken_for_equal():
    encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=200))
    features = np.zeros((100, 200))
    features[np.arange(100), np.arange(100)] = 2.0 ** np.arange(-50, 50)
    assert different_rows(encoder, features, np.zeros(100, int)) == 100
    twice = np.concatenate([features, features])
    assert different_rows(encoder, twice, np.zeros(200, int)) == 100
    assert different_rows(encoder, twice, np.arange(200) // 100) == 200


def test_rows_are_compared_by_value_and_label(encoder):
    """The two zeros are equal; one bit of a feature, or one letter of a label, is a difference."""
    features = np.array([[0.0, 0.5, 1.0], [-0.0, 0.5, 1.0], [0.0, 0.5, np.nextafter(1, 2)]])
    assert different_rows(encoder, features, np.array(["a", "a", "a"])) == 2
    assert different_rows(encoder, features, np.array(["a", "ab", "a"])) == 3


def test_a_repeated_row_is_evaluated_once_for_the_policy():
    model = SafleClassifier().fit(FEATURES, LABELS).model_
    table = Table(FEATURES.repeat(2, axis=0), LABELS.repeat(2))
    total, rows, _ = evaluate_table(model, table, where="t.csv")
    assert total == evaluate(model, table.features, table.labels)
    assert rows == evaluate(model, FEATURES, LABELS)


def test_every_sample_is_predicted_once_where_no_row_repeats(monkeypatch):
    model = SafleClassifier().fit(FEATURES, LABELS).model_
    scored = []
    score = Model.score_checked
    monkeypatch.setattr(
        Model, "score_checked", lambda self, rows: scored.append(len(rows)) or score(self, rows)
    )
    total, rows, _ = evaluate_table(model, PLAIN, where="t.csv")
    assert scored == [8, 8, 8, 6]
    assert total is rows


def test_errors_name_the_file_and_the_batch(encoder):
    broken = Table(np.concatenate([FEATURES[:8], np.full((2, 3), np.nan)]), LABELS[:10])
    with pytest.raises(InvalidInput, match=r"^t\.csv, in the batch .*sample 8: "):
        count_table(encoder, broken, where="t.csv")


def test_a_warning_of_repeats_says_how_many_repeat_the_id_too() -> None:
    features, labels = np.repeat([[0.1], [0.9]], 3, axis=0), np.array([0, 0, 0, 1, 1, 1])
    ids = np.array(["a", "a", "b", "c", "d", "e"])
    table = Table(features, labels, ids=ids)
    said = describe_repeats(6, 2, table)
    assert said.startswith("4 of 6 samples repeat")
    assert said.endswith("(those that repeat its id as well: 1)")
    others = replace(table, ids=np.arange(6).astype(str))
    assert describe_repeats(6, 2, others).endswith("(those that repeat its id as well: 0)")
    assert describe_repeats(6, 2, replace(table, ids=None)).endswith("count again")
    assert describe_repeats(6, 2) == describe_repeats(6, 2, replace(table, ids=None))


@pytest.mark.parametrize(("samples", "repeats", "said"), [(300, 2, False), (300, 3, True)])
def test_repeats_are_said_from_a_hundredth_of_the_samples_on(samples, repeats, said) -> None:
    features = np.arange(float(samples))[:, None]
    features[-repeats:] = 0
    table = Table(features, np.zeros(samples, int))
    assert bool(describe_repeats(samples, samples - repeats, table)) == said
    # A patient whose id repeats as well is there twice: that is no chance.
    ids = np.arange(samples).astype(str)
    named = replace(table, ids=ids)
    assert bool(describe_repeats(samples, samples - repeats, named)) == said
    ids[-1] = "0"
    said_at_last = describe_repeats(samples, samples - repeats, replace(table, ids=ids))
    assert "(those that repeat its id as well: 1)" in said_at_last
