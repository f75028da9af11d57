"""`SafleClassifier`: scikit-learn's own checks, and that counting in parts changes nothing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import safle.model.estimator
from safle import (
    EmbeddingEncoder,
    SafleClassifier,
    count,
    declared_range,
    kinds,
    make_encoder,
    public_sample,
)
from safle.basics import describe
from safle.errors import EncoderMismatch, InvalidInput, SettingsError

SMALL = {"encoder": "embedding", "buckets": 3, "group_size": 3}
FEW = {"units": 64, "buckets": 3}


def small(kind):
    """A classifier of a kind, with few columns."""
    declared = {} if kind == "auto" else describe(kinds()[kind].settings_type)
    return SafleClassifier(encoder=kind, **{n: v for n, v in FEW.items() if n in declared})


@parametrize_with_checks(
    [
        *map(small, ["auto", *kinds()]),
        SafleClassifier(encoder="embedding", bucketing="integer", criterion="evidence"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def split():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def train(split):
    return split[0][:500], split[2][:500]


@pytest.fixture(scope="module")
def encoder(train):
    sample = public_sample(train[0][:200])
    return EmbeddingEncoder.calibrated(sample, buckets=3, group_size=3)


@pytest.fixture(scope="module")
def pooled(encoder, train):
    return SafleClassifier(encoder=encoder).fit(*train)


def test_accuracy_on_digits(split):
    train, test, train_labels, test_labels = split
    assert SafleClassifier().fit(train, train_labels).score(test, test_labels) > 0.97


@pytest.mark.parametrize("size", [1, 60, 5000])
def test_batches_in_any_order_are_one_fit(encoder, pooled, train, size):
    X, y = train
    order = np.random.default_rng(size).permutation(len(X))
    parts = SafleClassifier(encoder=encoder)
    for first in range(0, len(X), size):
        batch = order[first : first + size]
        parts.partial_fit(X[batch], y[batch])
    assert parts.statistics_ == pooled.statistics_
    assert parts.model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.parametrize("read", ["model_", "statistics_"])
def test_reading_between_batches_changes_nothing(encoder, pooled, train, read):
    X, y = train
    parts = SafleClassifier(encoder=encoder)
    for batch in np.array_split(np.arange(len(X)), 3):
        parts.partial_fit(X[batch], y[batch])
        getattr(parts, read)
    assert parts.model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda fitted: fitted])
def test_partial_fit_continues_a_fit(encoder, pooled, train, copied):
    X, y = train
    half = copied(SafleClassifier(encoder=encoder).fit(X[:300], y[:300]))
    before = half.model_.to_bytes()
    assert half.partial_fit(X[300:], y[300:]).model_.to_bytes() == pooled.model_.to_bytes()
    assert half.fit(X[:300], y[:300]).model_.to_bytes() == before


def test_solving_waits_until_a_result_is_asked_for(encoder, train, monkeypatch):
    X, y = train
    calls = []
    solve = safle.model.estimator.solve
    monkeypatch.setattr(
        safle.model.estimator, "solve", lambda *a, **k: calls.append(1) or solve(*a, **k)
    )
    parts = SafleClassifier(encoder=encoder)
    for first in range(0, 300, 100):
        parts.partial_fit(X[first : first + 100], y[first : first + 100])
    assert parts.statistics_.sample_count == 300
    assert not calls
    parts.predict(X[:2])
    parts.predict(X[:2])
    assert len(calls) == 1


def test_without_an_encoder_the_first_batch_calibrates(train):
    X, y = train
    first = SafleClassifier(**SMALL).partial_fit(X[:100], y[:100])
    calibrated = first.encoder_
    assert calibrated == SafleClassifier(**SMALL).fit(X[:100], y[:100]).encoder_
    assert first.partial_fit(X[100:], y[100:]).encoder_ is calibrated


def test_from_statistics_is_fit(encoder, pooled, train):
    statistics = count(encoder, *train)
    given = SafleClassifier.from_statistics(encoder, statistics)
    assert given.model_.to_bytes() == pooled.model_.to_bytes()
    assert given.n_features_in_ == 64
    assert np.array_equal(given.predict(train[0]), pooled.predict(train[0]))
    assert clone(given).fit(*train).model_.digest == pooled.model_.digest


@pytest.mark.parametrize("head", ["least-squares", "discriminant", "averaged"])
def test_estimator_of_two_hospitals_is_that_of_pooled_data(encoder, train, head):
    X, y = train
    mine = y < 6  # Each has classes that the other has never seen.
    hospital_a, hospital_b = (
        SafleClassifier(encoder=encoder).partial_fit(X[part], y[part]).statistics_
        for part in (mine, ~mine)
    )
    together = SafleClassifier.from_statistics(encoder, hospital_a + hospital_b, head=head)
    pooled = SafleClassifier(encoder=encoder, head=head).fit(X, y)
    assert together.model_.to_bytes() == pooled.model_.to_bytes()


def test_from_statistics_can_go_on_counting(encoder, pooled, train):
    X, y = train
    begun = SafleClassifier.from_statistics(encoder, count(encoder, X[:200], y[:200]), ridge=1.0)
    begun.partial_fit(X[200:], y[200:])
    assert begun.statistics_ == pooled.statistics_
    assert begun.solution_.ridge == 1.0


def test_from_statistics_of_another_encoder(encoder, train):
    other = EmbeddingEncoder(encoder.thresholds, buckets=3, group_size=3, seed=1)
    with pytest.raises(EncoderMismatch, match="encoder file"):
        SafleClassifier.from_statistics(other, count(encoder, *train))


def test_pipeline_and_grid_search(train, split):
    """Grids reach the settings of every kind by their names."""
    pipeline = make_pipeline(StandardScaler(), SafleClassifier(encoder="linear", ridge=10.0))
    grid = [
        {"encoder": ["linear"], "ridge": ["auto", 10.0]},
        {"encoder": ["random-features"], "units": [64, 512], "seed": [np.int64(3)]},
    ]
    prefixed = [{f"safleclassifier__{name}": row[name] for name in row} for row in grid]
    search = GridSearchCV(pipeline, prefixed, cv=2)
    search.fit(*train)
    best = search.best_estimator_[-1]
    assert (best.encoder, best.encoder_.settings.units) == ("random-features", 512)
    assert best.encoder_.settings.seed == 3
    assert search.score(split[1], split[3]) > 0.9


def test_settings_are_parameters():
    estimator = SafleClassifier(encoder="embedding", seed=7)
    assert {"seed": 7, "units": None}.items() <= estimator.get_params().items()
    assert {name for kind in kinds().values() for name in describe(kind.settings_type)} <= {
        *estimator.get_params()
    }
    assert clone(estimator).get_params() == estimator.get_params()
    estimator.set_params(seed=None, buckets=3)
    assert estimator.fit([[0.0], [1.0]], [0, 1]).encoder_.settings.seed == 0
    assert estimator.encoder_.settings.buckets == 3
    with pytest.raises(ValueError, match="Invalid parameter 'bucket'"):
        estimator.set_params(bucket=3)


def test_a_refused_fit_changes_nothing(encoder, train):
    fitted = SafleClassifier(encoder=encoder).fit(*train)
    before = fitted.model_.digest
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(np.full((4, 64), np.nan), [0, 1, 0, 1])
    assert fitted.model_.digest == before


def test_sparse_features_are_refused_with_advice(encoder, train):
    X, y = train
    sparse = csr_array(X)
    fitted = SafleClassifier(encoder=encoder).fit(X, y)
    for call in (fitted.predict, fitted.model_.predict, lambda given: fitted.fit(given, y)):
        with pytest.raises(InvalidInput, match=r"sparse matrix.*toarray"):
            call(sparse)


LABELS = [
    np.array([3, -1, 7], np.int8),
    np.array([3, 2**40, 7], np.int64),
    np.array([1, 2, 3], np.uint64),
    np.array([0.0, 2.0, -4.0], np.float32),
    np.array(["cat", "dog", "Äpfel"]),
    np.array(["cat", "a much longer name", "b"], dtype=object),
    np.array([False, True]),
]


@pytest.mark.parametrize("names", LABELS, ids=lambda names: str(names.dtype))
@pytest.mark.parametrize("head", ["least-squares", "discriminant"])
def test_labels_come_back_as_they_were(names, head):
    rng = np.random.default_rng(0)
    y = names[np.arange(120) % len(names)]
    X = rng.normal(size=(120, 4)) + 4 * (np.arange(120) % len(names))[:, None]
    fitted = SafleClassifier(**SMALL, head=head).fit(X, y)
    assert fitted.classes_.dtype == names.dtype
    assert np.array_equal(fitted.classes_, np.unique(names))
    predicted = fitted.predict(X)
    assert predicted.dtype == names.dtype
    assert (predicted == y).mean() > 0.9
    best = fitted.predict_proba(X).argmax(axis=1)
    assert np.array_equal(fitted.classes_[best], predicted)


def test_estimator_of_one_class_always_predicts_it(train):
    fitted = SafleClassifier(**SMALL).fit(train[0][:50], np.full(50, "only"))
    assert set(fitted.predict(train[0])) == {"only"}
    assert np.array_equal(fitted.predict_proba(train[0][:3]), np.ones((3, 1)))


@pytest.mark.parametrize("head", ["least-squares", "discriminant"])
def test_declared_classes_without_samples_are_never_predicted(train, head):
    X, y = train
    seen = y < 5
    fitted = SafleClassifier(**SMALL, head=head)
    fitted.partial_fit(X[seen], y[seen], classes=range(10))
    assert fitted.classes_.tolist() == list(range(10))
    assert fitted.predict_proba(X).shape == (len(X), 10)
    assert not fitted.predict_proba(X)[:, 5:].any()
    assert np.isneginf(fitted.decision_function(X)[:, 5:]).all()
    assert fitted.predict(X).max() < 5
    fitted.partial_fit(X[~seen], y[~seen], classes=range(10))
    assert set(fitted.predict(X)) == set(range(10))


def test_undeclared_classes_grow(encoder, train):
    X, y = train[0], train[1].astype(str)
    fitted = SafleClassifier(encoder=encoder).partial_fit(X[y < "3"], y[y < "3"])
    assert fitted.classes_.tolist() == ["0", "1", "2"]
    fitted.partial_fit(X[y >= "3"], y[y >= "3"])
    assert fitted.model_.digest == SafleClassifier(encoder=encoder).fit(X, y).model_.digest


def test_a_refused_batch_changes_nothing(encoder, train):
    X, y = train
    fitted = SafleClassifier(encoder=encoder).partial_fit(X[:300], y[:300], classes=range(10))
    before = fitted.model_.digest
    for labels, classes in [
        (y[:300] + 1, None),
        (y[:300].astype(str), None),
        (y[:300], range(11)),
        (y[:300] + 0.5, None),
    ]:
        with pytest.raises(ValueError, match=r"class|label"):
            fitted.partial_fit(X[:300], labels, classes=classes)
    with pytest.raises(ValueError, match="64 features"):
        fitted.partial_fit(X[:300, :60], y[:300])
    assert fitted.model_.digest == before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"encoder": "quadratic"}, "unknown encoder kind"),
        ({"encoder": ["linear"]}, "unknown encoder kind"),
        ({"buckets": 4}, "unknown setting 'buckets'"),
        ({"encoder": make_encoder(declared_range(0, 9, 2)), "units": 4}, "units beside an Encoder"),
        ({"ridge": -1}, "ridge"),
        ({"head": "two"}, "head"),
        ({"criterion": "aic"}, "criterion"),
    ],
)
def test_wrong_parameters(params, message):
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises((SettingsError, InvalidInput), match=message):
        SafleClassifier(**params).fit(X, [0, 1] * 3)


def test_an_encoder_for_other_features(encoder):
    estimator = SafleClassifier(encoder=encoder)
    with pytest.raises(InvalidInput, match="expects 64"):
        estimator.partial_fit(np.ones((4, 3)), [0, 1, 0, 1])
    for name in ("model_", "solution_", "statistics_"):
        with pytest.raises(NotFittedError):
            getattr(estimator, name)
