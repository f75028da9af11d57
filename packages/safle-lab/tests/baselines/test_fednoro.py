"""FedNoRo, step by step: who is noisy, and whose head counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safle_lab.baselines import METHODS, fednoro

torch = pytest.importorskip("torch", reason="iterative methods need torch")
from safle_lab.baselines.training import Round, Step, Trainer  # noqa: E402

CLASSES = 3
SHORT = {"rounds": 10, "epochs": 2, "batch": 16, "rate": 0.05}
NOISY = np.arange(12) >= 8


@pytest.fixture
def task(noisy_task):
    return noisy_task


def step_of(logits, labels, clients=(0,)):
    """One batch, with a server whose logits are all zero."""
    active, _, batch = logits.shape
    head = [torch.zeros(active, logits.shape[1], 2), torch.zeros(active, logits.shape[1], 1)]
    inputs = torch.ones(active, 2, batch)
    return Step(np.array(clients), head, inputs, labels, logits, logits)


def round_of(values, weights):
    """Heads of one parameter each."""
    local = [torch.tensor(values).reshape(-1, 1, 1)]
    clients = np.arange(len(values))
    return Round(
        clients, len(values), torch.tensor(weights), clients, [torch.zeros(1, 1, 1)], local
    )


def test_priors_are_logarithms_of_class_shares(task):
    few = replace(task, labels=np.zeros(720, np.int64), parts=[np.arange(4), np.arange(0)])

    (priors,) = fednoro.log_priors(few).numpy()

    assert priors[0] == 0.0
    assert np.isfinite(priors).all()
    # So much below all logits that softmax gives such a class nothing, and no gradient.
    assert np.exp(priors[1] + 1e4) == 0.0


def test_adjusted_losses_are_cross_entropies_of_shifted_logits():
    logits, labels = torch.tensor([[[0.3, 2.0], [1.0, -1.0]]]), torch.tensor([[0, 1]])
    priors = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))

    found = fednoro.adjusted_losses(step_of(logits, labels, clients=[1]), priors)[0].tolist()

    scores = np.exp(logits[0].numpy().T) * [0.9, 0.1]
    expected = -np.log(scores[[0, 1], [0, 1]] / scores.sum(axis=1))
    assert found == pytest.approx(expected.tolist(), rel=1e-5)


def test_noisy_clients_hear_the_server_and_clean_ones_their_labels(task):
    settings = METHODS["fednoro"].settings({**SHORT, "distillation": 1.0})
    logits, labels = torch.zeros(2, CLASSES, 1), torch.tensor([[0], [0]])
    logits[:, 0] = 3.0
    memory = fednoro.Memory(
        task, torch.zeros(2, CLASSES), rounds=10, noisy=torch.tensor([False, True])
    )

    clean, noisy = fednoro.distilled_losses(
        step_of(logits, labels, clients=[0, 1]), settings, memory
    )

    # The server finds all classes alike: -log 3 minus the mean of the client's log-probabilities.
    logs = np.array([3.0, 0.0, 0.0]) - np.log(np.exp(3) + 2)
    assert float(clean) == pytest.approx(-logs[0], rel=1e-5)
    assert float(noisy) == pytest.approx(-np.log(3) - logs.mean(), rel=1e-4)


def test_a_noisy_client_is_compared_by_adjusted_logits_and_in_its_own_classes(task):
    settings = METHODS["fednoro"].settings({**SHORT, "distillation": 1.0})
    logits, labels = torch.tensor([[[0.5], [1.0], [2.0]]]), torch.tensor([[0]])
    priors = torch.tensor([[np.log(0.75), np.log(0.25), fednoro.LOG_ABSENT]])
    memory = fednoro.Memory(task, priors, rounds=10, noisy=torch.tensor([True]))

    (found,) = fednoro.distilled_losses(step_of(logits, labels), settings, memory)

    own = np.log([0.75 * np.exp(0.5), 0.25 * np.exp(1.0)])
    own -= np.log(np.exp(own).sum())
    assert float(found) == pytest.approx(((-np.log(3) - own) / 3).sum(), rel=1e-4)


def test_the_servers_opinion_counts_more_and_more():
    settings = METHODS["fednoro"].settings({"rounds": 100})

    weights = [fednoro.opinion_weight(rounds, settings) for rounds in (10, 30, 50, 100)]

    assert weights == sorted(weights)
    assert weights[0] == pytest.approx(0.8 * np.exp(-5))
    assert weights[1] == pytest.approx(0.8 * np.exp(-1.25))
    assert weights[2:] == [0.8, 0.8]


def test_classes_a_client_does_not_hold_say_nothing_against_it():
    losses = np.full((9, 3), 0.5) + 0.01 * np.arange(27).reshape(9, 3)
    losses[[3, 7]] += 2.0
    losses[0, 1] = losses[3, 2] = np.nan

    found = fednoro.find_noisy(losses, seed=0)

    assert np.flatnonzero(found).tolist() == [3, 7]


def test_losses_by_class_are_means_over_a_clients_samples(task):
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(1, CLASSES, 7))).float()
    head = [weights, torch.zeros(1, CLASSES, 1)]
    scores = task.features @ weights[0].numpy().T
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    found = fednoro.losses_by_class(task, head)

    part = task.holders[2]
    own = part[task.labels[part] == 1]
    assert found.shape == (12, CLASSES)
    assert found[2, 1] == pytest.approx(-logs[own, 1].mean(), rel=1e-4)


def test_a_noisy_head_counts_less_the_further_it_is_from_a_clean_one(task):
    memory = fednoro.Memory(task, torch.zeros(1), noisy=torch.tensor([False, True, True]))
    done = round_of([0.0, 1.0, 4.0], [0.5, 0.25, 0.25])

    (found,) = fednoro.distance_aware_mean(done, None, memory)

    weights = np.array([0.5, 0.25 * np.exp(-0.25), 0.25 * np.exp(-1)])
    assert found.item() == pytest.approx(weights @ [0, 1, 4] / weights.sum(), rel=1e-5)


def test_fednoro_finds_noisy_clients_after_the_warm_up(task):
    settings = METHODS["fednoro"].settings({**SHORT, "warm_up": 0.3})
    trainer = Trainer(task, settings, fednoro.ALGORITHM)

    for _ in range(3):
        assert trainer.memory.noisy is None
        trainer.round()

    assert np.array_equal(trainer.memory.noisy.numpy(), NOISY)


@pytest.mark.parametrize("name", ["fednoro", "fedcorr"])
def test_the_rate_is_chosen_for_the_method_and_not_for_fedavg(name):
    """Wrong labels want another rate where the loss forgives them."""
    assert METHODS[name].grid["rate"] == METHODS["fedavg"].grid["rate"]
    assert not METHODS[name].tuned_like
