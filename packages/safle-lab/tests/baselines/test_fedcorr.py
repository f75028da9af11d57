"""FedCorr, step by step: who is noisy, and what is relabelled."""

from __future__ import annotations

import numpy as np
import pytest

from safle_lab.baselines import METHODS, fedcorr, fednoro

torch = pytest.importorskip("torch", reason="iterative methods need torch")

CLASSES = 3
SHORT = {"rounds": 10, "epochs": 2, "batch": 16, "rate": 0.05}


def test_intrinsic_dimensionality_is_that_of_the_space():
    generator = np.random.default_rng(0)
    line, cube = np.zeros((1000, 5)), generator.random((1000, 5))
    line[:, 0] = generator.random(1000)

    assert 0.8 < fedcorr.intrinsic_dimensionality(line, 20) < 1.5
    assert 3.5 < fedcorr.intrinsic_dimensionality(cube, 20) < 6
    assert fedcorr.intrinsic_dimensionality(cube[:2], 20) == 0.0
    assert np.isfinite(fedcorr.intrinsic_dimensionality(np.zeros((9, 5)), 20))


def test_fedcorr_finds_the_larger_of_two_groups():
    values = np.array([0.1, 2.0, 0.12, 2.2, 0.09, 0.11])

    found = fednoro.in_larger_component(values[:, None], 0)

    assert found.tolist() == [False, True, False, True, False, False]
    assert not fednoro.in_larger_component(np.ones((4, 1)), 0).any()


def test_sure_predictions_replace_the_worst_labels():
    labels, losses = np.zeros(4, np.int64), np.array([0.1, 3.0, 2.0, 0.5])
    sure = np.array([[0.1, 0.9], [0.1, 0.9], [0.6, 0.4], [0.1, 0.9]], np.float32)
    unsure = np.array([[0.1, 0.9], [0.45, 0.55], [0.1, 0.9], [0.1, 0.9]], np.float32)

    assert fedcorr.relabel(labels, losses, sure, 0.5, 0.5).tolist() == [0, 1, 0, 0]
    assert fedcorr.relabel(labels, losses, unsure, 0.5, 0.7).tolist() == [0, 0, 1, 0]
    assert not labels.any()


def test_noise_holds_a_client_to_the_server():
    settings = METHODS["fedcorr"].settings(SHORT)
    memory = fedcorr.Memory(torch.zeros(2, CLASSES), torch.tensor([0.0, 0.4]))
    heads = [torch.ones(2, 1, 1)]

    pull = fedcorr.proximal_pull(np.arange(2), [torch.zeros(1, 1, 1)], settings, memory)
    pull.apply(heads, rate=0.1)

    # 5 * 0.4 ||w||^2 has the gradient 4 w.
    assert heads[0].flatten().tolist() == [1.0, pytest.approx(0.6)]


@pytest.mark.slow
def test_fedcorr_restores_labels_and_both_methods_beat_fedavg(noisy_task):
    """Four clients of twelve have three labels in four wrong; nobody is shown the truth."""
    task = noisy_task
    corrected = METHODS["fedcorr"](task, **{**SHORT, "rounds": 30}, iterations=4)
    wrong = (task.labels != task.watched[1]).mean()

    assert corrected.facts["clean_clients"] < 12
    assert 0.25 * wrong < corrected.facts["relabelled_share"] < 1.5 * wrong
    plain = METHODS["fedavg"](task, **SHORT)
    robust = METHODS["fednoro"](task, **SHORT)
    assert min(task.accuracy(m.model) for m in (corrected, robust)) >= task.accuracy(plain.model)
