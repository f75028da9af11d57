"""Closed-form methods: equal to their pooled solutions, whoever holds what."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from safle.demo import dirichlet, iid, shards
from safle.encoders import DeclaredRange, LinearEncoder, make_encoder
from safle.encoders.random_features import suits_by_class
from safle.errors import InvalidInput, SettingsError
from safle.model import Model
from safle.solver import solve
from safle.statistics import count
from safle.wire import write_statistics
from safle_lab.baselines import METHODS, Task
from safle_lab.baselines.afl import (
    Upload,
    absolute_aggregation,
    grid_step,
    remove_intermediary,
    upload,
)
from safle_lab.baselines.base import one_hot
from safle_lab.baselines.deepafl import sandwiched
from safle_lab.baselines.safle import Calibrated, encoder_of
from safle_lab.baselines.trimmed import residual
from safle_lab.baselines.wisard import Discriminators, counters_of

CLASSES = 4


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    labels = generator.integers(0, CLASSES, 600)
    centres = generator.normal(size=(CLASSES, 12))
    features = centres[labels] + 0.8 * generator.normal(size=(600, 12))
    return np.abs(features).astype(np.float32), labels


def partitions(labels):
    def generator():
        return np.random.default_rng(1)

    return {
        "pooled": [np.arange(len(labels))],
        "skewed": dirichlet(labels, clients=9, alpha=0.1, generator=generator()),
        "sharded": shards(labels, clients=15, shards_per_client=2, generator=generator()),
        "many": iid(len(labels), clients=150, generator=generator()),
        "reordered": iid(len(labels), clients=150, generator=generator())[::-1],
    }


def task_of(blobs, parts, **more):
    return Task(*blobs, parts, CLASSES, **more)


def uploads_of(blobs, parts, intermediary):
    features, labels = blobs
    codes = np.rint(features.astype(np.float64) / grid_step(features))
    return [
        upload(codes[part], one_hot(labels[part], CLASSES), intermediary)
        for part in parts
        if len(part)
    ], codes


@pytest.mark.parametrize("kind", ["skewed", "sharded", "many", "reordered"])
def test_the_law_is_pooled_ridge_and_without_the_intermediary_pooled_least_squares(blobs, kind):
    features, labels = blobs
    gamma = 1.0 / grid_step(features) ** 2
    sent, codes = uploads_of(blobs, partitions(labels)[kind], gamma)
    targets = one_hot(labels, CLASSES)

    merged = absolute_aggregation(sent)
    restored, error = remove_intermediary(merged, gamma)

    ridge = np.linalg.solve(
        codes.T @ codes + len(sent) * gamma * np.eye(codes.shape[1]), codes.T @ targets
    )
    pooled = np.linalg.lstsq(codes, targets, rcond=None)[0]
    assert np.abs(merged.weights - ridge).max() <= 1e-10 * np.abs(ridge).max()
    assert np.abs(restored - pooled).max() <= 1e-10 * np.abs(pooled).max()
    assert error < 1e-3


def test_two_clients_merge_by_the_law_as_it_is_written(blobs):
    (u, v), _ = uploads_of(blobs, [np.arange(100), np.arange(100, 600)], 2.0**20)

    merged = absolute_aggregation([u, v])

    eye, both = np.eye(len(u.gram)), np.linalg.inv(u.gram + v.gram)
    ru, rv = np.linalg.inv(u.gram), np.linalg.inv(v.gram)
    left = eye - ru @ v.gram + ru @ v.gram @ both @ v.gram
    right = eye - rv @ u.gram + rv @ u.gram @ both @ u.gram
    expected = left @ u.weights + right @ v.weights
    assert np.allclose(merged.weights, expected, rtol=1e-8, atol=0)
    assert merged.clients == 2


def test_an_empty_federation_cannot_be_merged():
    with pytest.raises(InvalidInput, match="nothing to merge"):
        absolute_aggregation([])


def test_rounding_that_went_too_far_is_noticed(blobs):
    sent, _ = uploads_of(blobs, [np.arange(600)], 1.0)
    wrong = Upload(sent[0].gram, sent[0].weights * (1 + 1e-4))
    from safle.errors import SolveError

    with pytest.raises(SolveError, match="off the integers"):
        remove_intermediary(wrong, 1.0)


@pytest.mark.parametrize("name", ["afl", "safle", "safle-hybrid", "safle-default", "wisard"])
def test_models_are_the_same_bytes_for_every_partition(blobs, name):
    digests = {
        kind: METHODS[name](task_of(blobs, parts)).digest
        for kind, parts in partitions(blobs[1]).items()
    }

    assert len(set(digests.values())) == 1


def test_deepafl_does_not_depend_on_the_partition(blobs):
    results = {
        kind: METHODS["deepafl"](task_of(blobs, parts), layers=3, width=32)
        for kind, parts in partitions(blobs[1]).items()
    }

    pooled = results.pop("pooled")
    for result in results.values():
        assert np.allclose(result.model.classifier, pooled.model.classifier, atol=1e-3)
        for ours, theirs in zip(result.model.layers, pooled.model.layers, strict=True):
            # Singular vectors may change signs; their products may not.
            assert np.allclose(np.matmul(*ours[1]), np.matmul(*theirs[1]), atol=1e-3)
        agreement = result.model.predict(blobs[0]) == pooled.model.predict(blobs[0])
        assert agreement.mean() > 0.998
    assert pooled.rounds == 7


def test_deepafl_layers_lower_the_training_error(blobs):
    watched = Task(*blobs, [np.arange(600)], CLASSES, watched=blobs)

    curve = METHODS["deepafl"](watched, layers=6, width=48).curve

    assert [point.rounds for point in curve] == [1, 3, 5, 7, 9, 11, 13]
    assert curve[-1].accuracy > curve[0].accuracy
    assert all(a.bytes_per_client < b.bytes_per_client for a, b in pairwise(curve))


def test_the_sandwiched_problem_is_solved():
    generator = np.random.default_rng(0)
    hidden, weights = generator.normal(size=(40, 5)), generator.normal(size=(6, 3))
    residual, strength = generator.normal(size=(40, 3)), 0.3

    omega = np.matmul(*sandwiched(hidden.T @ hidden, hidden.T @ residual, weights, strength))

    # vec(F Omega W) = kron(F, W') vec(Omega), rows first: an ordinary ridge problem.
    design = np.kron(hidden, weights.T)
    normal = design.T @ design + strength * np.eye(30)
    expected = np.linalg.solve(normal, design.T @ residual.ravel()).reshape(5, 6)
    assert np.allclose(omega, expected, atol=1e-10)


def test_fedcgs_is_linear_discriminant_analysis(blobs):
    features, labels = blobs
    result = METHODS["fedcgs"](task_of(blobs, partitions(labels)["skewed"]), shrinkage=0.0)

    reference = LinearDiscriminantAnalysis(solver="lsqr").fit(features.astype(np.float64), labels)
    assert np.array_equal(result.model.predict(features), reference.predict(features))


def test_a_class_that_nobody_holds_is_never_predicted(blobs):
    features, labels = blobs
    task = Task(features, labels, [np.arange(600)], CLASSES + 1)

    assert METHODS["fedcgs"](task).model.predict(features).max() < CLASSES


def test_safle_is_the_pipeline_and_its_bytes_are_those_of_its_files(blobs, tmp_path):
    features, labels = blobs
    parts = partitions(labels)["sharded"]
    task = task_of(blobs, parts, seed=3)
    settings = METHODS["safle"].settings({"buckets": 3})
    result = METHODS["safle"](task, buckets=3)

    encoder = encoder_of(Calibrated(task, settings).calibration, settings, task)
    pooled = count(encoder, features, labels)
    expected = Model(encoder, solve(pooled, head="least-squares"))
    assert result.digest == expected.digest
    sizes = []
    for part in parts:
        write_statistics(tmp_path / "client.stats", count(encoder, features[part], labels[part]))
        sizes.append((tmp_path / "client.stats").stat().st_size)
    assert result.facts["statistics_bytes"] == np.mean(sizes)
    assert result.bytes_up == np.mean(sizes) + result.facts["calibration_bytes"]
    assert result.rounds == 1


def test_the_default_counts_by_class_where_the_shipped_one_would():
    """From 20 declared classes on; the lab declares all classes of its data."""
    generator = np.random.default_rng(0)
    labels = np.arange(400) % 20
    features = np.abs(generator.normal(size=(400, 6)) + labels[:, None] % 7).astype(np.float32)
    calibration, settings = DeclaredRange(0, 16, 6), METHODS["safle-default"].defaults

    for classes, expected in ((19, False), (20, True)):
        kept = labels < classes
        task = Task(features[kept], labels[kept], [np.arange(kept.sum())], classes)
        shipped = make_encoder(calibration, by_class=suits_by_class(6, classes))
        found = encoder_of(calibration, settings, task)
        assert found.fingerprint == shipped.fingerprint
        assert (found.layout.by_class != (0, 0)) == expected


@pytest.mark.parametrize("bucketing", ["integer", "one-hot", "binary-overlap"])
def test_safle_learns_with_every_bucketing(blobs, bucketing):
    result = METHODS["safle"](task_of(blobs, [np.arange(600)]), bucketing=bucketing, buckets=4)

    assert (result.model.predict(blobs[0]) == blobs[1]).mean() > 0.8


def test_wisard_counts_and_bleaches_as_its_definition_says(blobs):
    features, labels = blobs
    task = task_of(blobs, [np.arange(600)])
    settings = METHODS["wisard"].settings({"buckets": 3, "group_size": 3})
    result = METHODS["wisard"](task, buckets=3, group_size=3)
    assert isinstance(result.model, Discriminators)
    encoder = result.model.encoder
    symbols = encoder.encode(features).symbols

    table = {}
    for row, label in zip(symbols, labels, strict=True):
        for node, address in enumerate(row):
            key = (int(label), node, int(address))
            table[key] = table.get(key, 0) + 1
    counters = counters_of(encoder, features, labels, CLASSES)
    for (label, node, address), times in table.items():
        assert counters[encoder.layout.bases[node] + address, label] == times
    assert counters.sum() == len(table and labels) * symbols.shape[1]

    for row, predicted in zip(symbols[:50], result.model.predict(features[:50]), strict=True):
        scores = [
            sum(table.get((label, node, int(address)), 0) > 0 for node, address in enumerate(row))
            for label in range(CLASSES)
        ]
        if scores.count(max(scores)) == 1:
            assert predicted == scores.index(max(scores))
    assert (result.model.predict(features) == labels).mean() > 0.7
    assert settings.calibration == "histogram"


def test_settings_and_tasks_are_checked(blobs):
    features, labels = blobs
    with pytest.raises(SettingsError, match=r"afl\.gama is no setting; expected one of gamma"):
        METHODS["afl"](task_of(blobs, [np.arange(600)]), gama=1)
    with pytest.raises(SettingsError, match=r"afl\.gamma is 'much'; expected something like 1000"):
        METHODS["afl"](task_of(blobs, [np.arange(600)]), gamma="much")
    with pytest.raises(SettingsError, match="histogram or range"):
        METHODS["safle"](task_of(blobs, [np.arange(600)]), calibration="guess")
    with pytest.raises(InvalidInput, match="no client holds any sample"):
        Task(features, labels, [np.arange(0)], CLASSES)
    with pytest.raises(InvalidInput, match="below 3"):
        Task(features, labels, [np.arange(600)], 3)
    with pytest.raises(InvalidInput, match="expected \\(samples, features\\)"):
        Task(features[:5], labels, [np.arange(5)], CLASSES)


def test_a_residual_is_read_off_statistics(blobs):
    features, labels = blobs
    encoder = LinearEncoder(features.mean(axis=0), features.std(axis=0))
    solution = solve(count(encoder, features, labels), head="least-squares")
    few = labels[:90] < 2

    found = residual(count(encoder, features[:90][few], labels[:90][few]), solution, encoder)

    scores = Model(encoder, solution).decision_function(features[:90][few])
    squares = (scores - np.eye(CLASSES)[labels[:90][few]]) ** 2
    assert found == pytest.approx(squares.sum(axis=1).mean(), rel=1e-5)


def test_clients_with_wrong_labels_are_taken_back_to_the_byte(blobs):
    """The model is that of a federation which the noisy clients never were in."""
    features, labels = blobs
    parts = iid(len(labels), clients=10, generator=np.random.default_rng(0))
    wrong = labels.copy()
    for part in parts[7:]:
        wrong[part] = (labels[part] + 1 + part % (CLASSES - 1)) % CLASSES
    given = {"calibration": "range"}

    trimmed = METHODS["safle-trimmed"](task_of((features, wrong), parts), **given)
    without = METHODS["safle-trimmed"](task_of((features, wrong), parts[:7]), **given)
    clean = METHODS["safle-trimmed"](task_of(blobs, parts), **given)

    assert trimmed.facts == {"taken_back": 3}
    assert trimmed.model.to_bytes() == without.model.to_bytes()
    assert clean.facts == without.facts == {"taken_back": 0}
    with pytest.raises(SettingsError, match="expected linear ones"):
        METHODS["safle-trimmed"](task_of(blobs, parts), columns="embedding")
