"""Counting at a site: what leaves, and each sample once for the policy."""

import numpy as np
import pytest

from safle import DeclaredRange, LinearEncoder, SafleClassifier, count, evaluate
from safle.errors import InvalidInput
from safle.model import Model
from safle.site.counting import count_table, evaluate_table
from safle.tables import Table

FEATURES = np.random.default_rng(0).random((30, 3))
LABELS = np.arange(30) % 2
WEIGHTS = np.arange(30) % 4
PLAIN = Table(FEATURES, LABELS)
WEIGHTED = Table(FEATURES, LABELS, weights=WEIGHTS)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setitem(Table.for_each_batch.__kwdefaults__, "size", 8)


@pytest.fixture
def encoder():
    return LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=3))


def test_batches_add_up_to_the_whole_by_weight_and_once(encoder):
    counts = count_table(encoder, WEIGHTED, where="t.csv")
    assert counts.total == count(encoder, FEATURES, LABELS, weights=WEIGHTS)
    assert counts.once == count(encoder, FEATURES, LABELS, weights=WEIGHTS > 0)
    plain = count_table(encoder, PLAIN, where="t.csv")
    assert plain.total is plain.once
    assert plain.total == count(encoder, FEATURES, LABELS)


def test_every_sample_is_predicted_once_however_it_is_weighted(monkeypatch):
    model = SafleClassifier().fit(FEATURES, LABELS).model_
    scored = []
    score = Model.decision_function
    monkeypatch.setattr(
        Model, "decision_function", lambda self, rows: scored.append(len(rows)) or score(self, rows)
    )
    counts = evaluate_table(model, WEIGHTED, where="t.csv")
    assert scored == [8, 8, 8, 6]
    assert counts.total == evaluate(model, FEATURES, LABELS, weights=WEIGHTS)
    assert counts.once == evaluate(model, FEATURES, LABELS, weights=WEIGHTS > 0)


def test_errors_name_the_file_and_the_batch(encoder):
    broken = Table(np.concatenate([FEATURES[:8], np.full((2, 3), np.nan)]), LABELS[:10])
    with pytest.raises(InvalidInput, match=r"^t\.csv, in the batch that begins with sample 8: "):
        count_table(encoder, broken, where="t.csv")
