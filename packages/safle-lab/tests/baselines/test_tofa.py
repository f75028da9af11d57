"""TOFA: both branches and their fusion as its equations say, and texts from a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from safle.errors import SettingsError, TableError
from safle_lab.baselines import METHODS, Task, tofa
from safle_lab.baselines.base import predict
from safle_lab.experiments.data import DataSet
from safle_lab.experiments.loading import describe_classes
from safle_lab.experiments.plan import Cell, Federation, Plan
from safle_lab.experiments.suite import Table1
from safle_lab.partitions import partition
from support.tables import write_table

CLASSES, DIM = 4, 12
SHARP = {"scale": 10.0}


@pytest.fixture(scope="module")
def prototypes() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(CLASSES, DIM))


@pytest.fixture(scope="module")
def task(prototypes) -> Task:
    generator = np.random.default_rng(4)
    labels = generator.integers(0, CLASSES, 600)
    features = prototypes[labels] + generator.normal(size=(600, DIM))
    # The first class's plain text is far from it; everybody's third is another class's.
    noise = generator.normal(size=(2, CLASSES, DIM))
    plain = prototypes + np.array([1.5, 0.2, 0.2, 0.2])[:, None] * noise[0]
    texts = np.stack([plain, prototypes + 0.2 * noise[1], np.roll(prototypes, 1, axis=0)], axis=1)
    parts = partition(labels, "alpha=0.3", clients=5, generator=np.random.default_rng(0))
    everything = features.astype(np.float32), labels
    return Task(*everything, parts, CLASSES, watched=everything, texts=texts.astype(np.float32))


def directions_of(task):
    return tofa.to_unit_length(task.features)


def test_a_posterior_weighs_a_client_against_everybody(task):
    own, others = (
        tofa.Moments.of(directions_of(task)[p], task.labels[p], CLASSES)
        for p in (task.parts[0], np.concatenate(task.parts[1:]))
    )
    settings, centre = tofa.Settings(prior=0.5), np.ones(DIM) / DIM

    found = tofa.posterior_classifier(own + others.raised(0.1), centre, settings)

    weight = own.counts + 0.1 * others.counts + 0.5
    means = (own.sums + 0.1 * others.sums + 0.5 * centre) / weight[:, None]
    scatter = 0.5 * sum(np.outer(centre - m, centre - m) for m in means)
    for part, power in ((task.parts[0], 1.0), (np.concatenate(task.parts[1:]), 0.1)):
        away = directions_of(task)[part] - means[task.labels[part]]
        scatter = scatter + power * away.T @ away
    covariance = scatter / weight.sum()
    shrunk = (1 - 1e-3) * covariance + 1e-3 * np.trace(covariance) / DIM * np.eye(DIM)
    assert np.allclose(found.weights, np.linalg.solve(shrunk, means.T))


def test_texts_are_judged_by_how_they_tell_their_class_from_others(task):
    directions, texts = directions_of(task), tofa.to_unit_length(task.texts)
    part = task.parts[1]

    scores = tofa.score_texts(directions[part], task.labels[part], texts, 10.0)

    for own in range(CLASSES):
        described = texts[:, 0].copy()
        described[own] = texts[own, 2]
        chances = softmax(10.0 * directions[part] @ described.T, axis=1)[:, own]
        members = task.labels[part] == own
        if members.any():
            right, wrong = chances[members].mean(), chances[~members].mean()
            assert scores[own, 2] == pytest.approx(right / (right + wrong), abs=1e-6)
        else:
            assert np.isnan(scores[own]).all()


def test_a_text_that_helps_counts_more_and_one_that_misleads_is_dropped(task):
    texts = tofa.to_unit_length(task.texts)
    scores = np.array(
        [
            tofa.score_texts(directions_of(task)[part], task.labels[part], texts, 10.0)
            for part in task.holders
        ]
    )

    weights = tofa.weigh_texts(scores)

    assert np.allclose(weights.sum(axis=1), 1)
    assert (weights[:, 2] == 0).all()
    assert weights[0, 1] > weights[0, 0]
    assert (weights[:, 0] > 0).all()


def test_the_surer_branch_decides(task):
    model = METHODS["tofa"](task, **SHARP).model.members[0]
    directions = directions_of(task)[:50]
    seen, read = model.images.decision_function(directions), 10.0 * directions @ model.texts.T
    a, b = (softmax(scores, axis=1).max(axis=1)[:, None] for scores in (seen, read))

    found = model.decision_function(task.features[:50])

    assert np.allclose(found, a / (a + b) * seen + b / (a + b) * read)


def test_tofa_branches_together_do_better_than_either(task):
    result = METHODS["tofa"](task, **SHARP)
    directions = directions_of(task)
    seen = [predict(own.images, directions) == task.labels for own in result.model.members]
    read = np.argmax(directions @ result.model.members[0].texts.T, axis=1) == task.labels

    assert task.accuracy(result.model) >= max(np.mean(seen), np.mean(read)) - 0.01
    assert task.accuracy(result.model) > 0.8
    assert (result.rounds, len(result.model.members)) == (1, len(task.holders))
    # Counts, sums, one triangle of a matrix and the scores of all texts, in float64.
    least = 8 * (CLASSES + CLASSES * DIM + DIM * (DIM + 1) // 2 + CLASSES * 3)
    assert least < result.bytes_up < least + 500


def test_tofa_without_all_clients_is_one_client(task):
    alone = METHODS["tofa"](task, power=0.0, **SHARP).model.members[0]
    one = replace(task, parts=[task.parts[0]])

    again = METHODS["tofa"](one, power=0.0, **SHARP).model.members[0]

    held = np.unique(task.labels[task.parts[0]])
    assert np.allclose(alone.images.weights[:, held], again.images.weights[:, held], rtol=0.05)


def test_texts_are_needed(task):
    with pytest.raises(SettingsError, match="--texts"):
        METHODS["tofa"](replace(task, texts=None))


@pytest.fixture
def data(task) -> DataSet:
    samples = task.features, task.labels, task.features, task.labels
    return DataSet("blobs", *samples, ("ant", "bee", "cat", "dog"), "made here")


def write_texts(path, texts, names):
    write_table(path, texts.reshape(-1, texts.shape[-1]), np.repeat(names, texts.shape[1]))


def test_texts_come_from_a_file_and_bring_the_method_along(task, data, tmp_path):
    write_texts(tmp_path / "texts.csv", task.texts, data.class_names)

    described = describe_classes(data, tmp_path / "texts.csv")

    assert np.array_equal(described.texts, task.texts)
    plans = [Plan([one], Federation(clients=2, seeds=1)) for one in (data, described)]
    table = Table1(methods=("afl",), scenarios=("iid",))
    asked = [[request.cell.method for request in table.requests(plan)] for plan in plans]
    assert ["tofa" in methods for methods in asked] == [False, True]
    # Other texts are another measurement of TOFA, and the same one of everybody else.
    other = replace(described, texts=2 * described.texts)
    for method, same in (("tofa", False), ("afl", True)):
        cell = Cell("method", "iid", 2, 0, method=method)
        assert (cell.key(described) == cell.key(other)) is same


def test_texts_that_do_not_fit_are_refused(task, data, tmp_path):
    path = tmp_path / "texts.npz"
    write_texts(path, task.texts[:3], data.class_names[:3])
    with pytest.raises(TableError, match="0 or 3 texts for a class"):
        describe_classes(data, path)
    write_texts(path, task.texts[..., 1:], data.class_names)
    with pytest.raises(TableError, match=r"of 11 features; .* of 12 features"):
        describe_classes(data, path)
    write_texts(path, task.texts, ("ant", "bee", "cat", "eel"))
    with pytest.raises(TableError, match="'eel'"):
        describe_classes(data, path)
