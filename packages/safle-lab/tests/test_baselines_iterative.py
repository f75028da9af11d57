"""Iterative methods: the batched loop is plain gradient descent, and each leads back to FedAvg."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from safle.demo import dirichlet
from safle.errors import SettingsError
from safle_lab.baselines import METHODS, Task, feddyn, fedkd, fednova, fedprox

torch = pytest.importorskip("torch", reason="iterative methods need torch")
from safle_lab.baselines.heads import HeadModel, forward  # noqa: E402
from safle_lab.baselines.training import Trainer, mean_head  # noqa: E402

pytestmark = pytest.mark.slow

CLASSES = 3
SHORT = {"rounds": 4, "epochs": 2, "batch": 8, "rate": 0.05}


@pytest.fixture(scope="module")
def task() -> Task:
    generator = np.random.default_rng(2)
    labels = generator.integers(0, CLASSES, 240)
    features = generator.normal(size=(CLASSES, 7))[labels] + generator.normal(size=(240, 7))
    parts = dirichlet(labels, clients=6, alpha=0.3, generator=np.random.default_rng(0))
    everything = features.astype(np.float32), labels
    return Task(*everything, parts, CLASSES, seed=1, watched=everything)


def heads_of(result):
    return [parameter.numpy() for parameter in result.model.parameters]


def same(first, second):
    pairs = zip(heads_of(first), heads_of(second), strict=True)
    return all(np.allclose(a, b, atol=1e-6) for a, b in pairs)


def plain_descent(features, labels, batches, rate):
    """Softmax regression of one client from zero, one batch at a time, in float64."""
    weights, bias = np.zeros((features.shape[1], CLASSES)), np.zeros(CLASSES)
    for batch in batches:
        samples = batch[batch >= 0]
        x, y = features[samples].astype(np.float64), np.eye(CLASSES)[labels[samples]]
        scores = np.exp(x @ weights + bias)
        gradient = (scores / scores.sum(axis=1, keepdims=True) - y) / len(samples)
        weights, bias = weights - rate * x.T @ gradient, bias - rate * gradient.sum(axis=0)
    return weights, bias


def test_all_clients_at_once_is_each_client_alone(task):
    settings = METHODS["fedavg"].settings(SHORT)
    chosen, batches, steps = Trainer(task, settings).plan()

    done = Trainer(task, settings).train()

    assert np.array_equal(done.clients, chosen)
    for row, client in enumerate(chosen):
        own = batches[row, : steps[row]]
        for epoch in np.split(own, SHORT["epochs"]):
            assert sorted(epoch[epoch >= 0]) == task.holders[client].tolist()
        weights, bias = plain_descent(task.features, task.labels, own, SHORT["rate"])
        assert np.allclose(done.local[0][row].numpy().T, weights, atol=1e-5)
        assert np.allclose(done.local[1][row, :, 0].numpy(), bias, atol=1e-5)
    sizes = np.array([len(task.holders[client]) for client in chosen])
    mean = np.einsum("k,kij->ij", sizes / sizes.sum(), done.local[0].numpy())
    assert np.allclose(mean_head(done)[0][0].numpy(), mean, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("fedprox", {"mu": 0.0}),
        ("feddyn", {"alpha": 0.0}),
        ("fedntd", {"beta": 0.0}),
        ("fednova", {"strength": 0.0}),
        ("moon", {"mu": 0.0}),
    ],
)
@pytest.mark.parametrize("hidden", [0, 9])
def test_without_its_term_each_method_is_fedavg(task, name, off, hidden):
    settings = {**SHORT, "hidden": hidden}

    plain = METHODS["fedavg"](task, **settings)
    without = METHODS[name](task, **settings, **off)

    assert same(without, plain)


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("fedprox", {"mu": 1.0}),
        ("feddyn", {"alpha": 0.5}),
        ("fedntd", {"beta": 1.0}),
        ("fednova", {"strength": 1.0}),
        ("moon", {"mu": 5.0}),
    ],
)
def test_with_its_term_no_method_is_fedavg(task, name, on):
    settings = {**SHORT, "hidden": 9}

    assert not same(METHODS[name](task, **settings, **on), METHODS["fedavg"](task, **settings))


def test_moon_with_a_linear_head_is_fedavg(task):
    linear = {**SHORT, "hidden": 0}

    assert same(METHODS["moon"](task, **linear, mu=5.0), METHODS["fedavg"](task, **linear))


def test_a_strong_proximal_term_keeps_clients_at_the_server(task):
    def moved(mu):
        settings = METHODS["fedprox"].settings({**SHORT, "mu": mu})
        return float(Trainer(task, settings, fedprox.ALGORITHM).train().local[0].norm())

    assert moved(10.0) < 0.6 * moved(0.0)


def test_feddyn_reaches_the_pooled_optimum_where_fedavg_is_biased(task):
    """With many local epochs FedAvg's fixed point is not the pooled one; FedDyn's is."""
    settings = {"rounds": 150, "epochs": 5, "batch": 1000, "rate": 0.2}

    def gradient(result):
        weights, bias = (p[0].mT.double().requires_grad_() for p in result.model.parameters)
        x = torch.from_numpy(task.features).double()
        loss = torch.nn.functional.cross_entropy(x @ weights + bias, torch.from_numpy(task.labels))
        return float(sum(g.norm() for g in torch.autograd.grad(loss, [weights, bias])))

    biased = gradient(METHODS["fedavg"](task, **settings))
    assert gradient(METHODS["feddyn"](task, **settings, alpha=0.3)) < 0.3 * biased


@pytest.mark.parametrize("hidden", [0, 9])
def test_a_pull_is_the_gradient_of_its_quadratic(task, hidden):
    """FedDyn's second round against torch's own derivative of the whole loss."""
    settings = METHODS["feddyn"].settings({**SHORT, "epochs": 1, "alpha": 0.5, "hidden": hidden})
    trainer, again = (Trainer(task, settings, feddyn.ALGORITHM) for _ in range(2))
    trainer.round()
    again.round()
    chosen, batches, steps = again.plan()

    done = trainer.train()

    for row, client in enumerate(chosen):
        own = [server.clone() for server in again.server]
        for batch in batches[row, : steps[row]]:
            own = [p.detach().requires_grad_() for p in own]
            samples = torch.from_numpy(batch[batch >= 0])
            logits = forward(own, trainer.features[samples].T[None])[0][0].T
            loss = torch.nn.functional.cross_entropy(logits, trainer.labels[samples])
            for p, server, far in zip(own, again.server, again.memory.own, strict=True):
                loss = loss + 0.25 * (p - server).square().sum() - 0.5 * (p * far[client]).sum()
            pairs = zip(own, torch.autograd.grad(loss, own), strict=True)
            own = [p - SHORT["rate"] * gradient for p, gradient in pairs]
        for found, expected in zip(done.local, own, strict=True):
            assert torch.allclose(found[row], expected[0], atol=1e-5)


def test_fednova_is_its_formula(task):
    settings = METHODS["fednova"].settings(SHORT)

    done = Trainer(task, settings).train()

    assert len(set(done.steps.tolist())) > 1
    p, tau = done.weights.numpy().astype(np.float64), done.steps
    moved = np.einsum("k,kij->ij", p / tau, done.local[0].numpy())
    expected = (p @ tau) * moved
    found = fednova.normalised_average(done, settings, None)[0][0].numpy()
    assert np.allclose(found, expected, atol=1e-6)


def test_the_seed_decides_everything(task):
    first, second = (METHODS["fedavg"](task, **SHORT) for _ in range(2))
    other = METHODS["fedavg"](replace(task, seed=9), **SHORT)

    assert first.digest == second.digest
    assert first.digest != other.digest


def test_accuracy_and_bytes_are_recorded_every_round(task):
    result = METHODS["fedavg"](task, **{**SHORT, "rounds": 30})

    assert [point.rounds for point in result.curve] == list(range(1, 31))
    assert result.curve[-1].accuracy > 0.7
    assert result.curve[-1].bytes_per_client == result.bytes_up + result.bytes_down
    from safle_lab.baselines.base import message
    from safle_lab.baselines.heads import arrays

    assert result.bytes_up == 30 * len(message(arrays(result.model.parameters)))


def test_half_of_the_clients_send_half_of_the_bytes(task):
    whole = METHODS["fedavg"](task, **SHORT)
    half = METHODS["fedavg"](task, **SHORT, participation=0.5)

    assert half.bytes_up == whole.bytes_up / 2
    assert not same(half, whole)


def test_one_shot_methods_send_one_head(task):
    average = METHODS["one-shot-average"](task, batch=8, rate=0.05)
    ensemble = METHODS["one-shot-ensemble"](task, batch=8, rate=0.05)

    assert average.rounds == ensemble.rounds == 1
    assert average.bytes_up == ensemble.bytes_up == average.bytes_down
    assert ensemble.bytes_down == len(task.holders) * ensemble.bytes_up
    votes = np.zeros((len(task.features), CLASSES))
    weights, bias = (parameter.numpy() for parameter in ensemble.model.parameters)
    for head, share in enumerate(ensemble.model.shares):
        scores = np.exp(task.features @ weights[head].T + bias[head].T)
        votes += share * scores / scores.sum(axis=1, keepdims=True)
    assert np.array_equal(ensemble.model.predict(task.features), votes.argmax(axis=1))


def test_local_heads_are_each_clients_own_and_nothing_is_sent(task):
    alone = METHODS["local"](task, batch=8, rate=0.05)
    together = METHODS["one-shot-ensemble"](task, batch=8, rate=0.05)

    assert (alone.rounds, alone.bytes_up, alone.bytes_down) == (0, 0.0, 0.0)
    features, labels = task.watched
    members = alone.model.members
    assert len(members) == len(task.holders)
    own = [(one.predict(features) == labels).mean() for one in members]
    assert task.accuracy(alone.model) == pytest.approx(np.mean(own))
    assert alone.curve[0].accuracy == task.accuracy(alone.model) < task.accuracy(together.model)
    # In the order of the holders: a client knows its own samples best.
    for part, one in zip(task.holders, members, strict=True):
        assert (one.predict(features[part]) == labels[part]).mean() >= 0.5


def test_public_samples_belong_to_nobody(task):
    left, public = fedkd.set_aside(task, 0.25)

    held = np.concatenate(left.holders)
    assert len(held) + len(public) == len(task.labels)
    assert 0.15 < len(public) / len(task.labels) < 0.35
    everything = np.sort(np.concatenate([task.features[held], public]), axis=0)
    assert np.array_equal(everything, np.sort(task.features, axis=0))


def test_a_vote_counts_as_much_as_the_clients_share_of_the_class():
    votes = np.array([[[0.9, 0.1]], [[0.2, 0.8]]], np.float32)
    counts = np.array([[3.0, 0.0], [1.0, 5.0]])

    (found,) = fedkd.weigh_votes(votes, counts)

    expected = np.array([0.75 * 0.9 + 0.25 * 0.2, 0.8])
    assert found == pytest.approx(expected / expected.sum())


def test_the_servers_head_learns_from_the_votes(task):
    """Targets that are a head's own probabilities give that head's predictions."""
    settings = METHODS["fedkd"].settings({"batch": 40, "distilling_rate": 0.2})
    weights = np.random.default_rng(0).normal(size=(7, CLASSES))
    scores = np.exp(task.features @ weights)
    targets = (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)

    head = HeadModel(fedkd.distil(task.features, targets, settings, seed=0))

    assert (head.predict(task.features) == targets.argmax(axis=1)).mean() > 0.95
    found = METHODS["fedkd"](task, batch=8, rate=0.05, distilling_rate=0.05)
    assert found.rounds == 1
    assert task.accuracy(found.model) > task.accuracy(METHODS["local"](task, batch=8).model)


def test_the_servers_head_has_a_rate_of_its_own(task):
    """Long features, as a backbone's are: the clients' rate would make it diverge."""
    long = replace(task, features=20 * task.features)
    long = replace(long, watched=(long.features, long.labels))

    def right(rate):
        return METHODS["fedkd"](long, batch=8, rate=0.1, distilling_rate=rate).curve[0].accuracy

    assert right(0.0003) > 0.6
    assert right(0.0003) > right(0.1)


@pytest.mark.parametrize(
    "wrong", [{"rounds": 0}, {"batch": 0}, {"participation": 0.0}, {"rate": -1.0}, {"hidden": -1}]
)
def test_settings_are_checked(task, wrong):
    with pytest.raises(SettingsError):
        METHODS["fedavg"](task, **{**SHORT, **wrong})


WITHOUT_TORCH = """
import sys, importlib.abc
class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import numpy as np
from safle_lab.baselines import METHODS, Task
METHODS["fedavg"](Task(np.ones((2, 2), np.float32), np.array([0, 1]), [np.arange(2)], 2))
"""


def test_methods_are_listed_without_torch():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )

    assert "pip install 'safle[torch]'" in done.stderr
