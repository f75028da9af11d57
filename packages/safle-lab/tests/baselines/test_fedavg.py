"""Iterative methods: the batched loop is plain gradient descent, and each leads back to FedAvg."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from safle_lab.baselines import METHODS, feddyn, fednova, fedprox

torch = pytest.importorskip("torch", reason="iterative methods need torch")
from safle_lab.baselines.heads import forward, head_message  # noqa: E402
from safle_lab.baselines.training import Trainer, mean_head  # noqa: E402

pytestmark = pytest.mark.slow

CLASSES = 3
SHORT = {"rounds": 4, "epochs": 2, "batch": 8, "rate": 0.05}


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
    ("name", "term", "strength"),
    [
        ("fedprox", "mu", 1.0),
        ("feddyn", "alpha", 0.5),
        ("fedntd", "beta", 1.0),
        ("fednova", "strength", 1.0),
        ("moon", "mu", 5.0),
    ],
)
def test_fedavg_variants_without_their_term_are_fedavg(task, name, term, strength):
    for hidden in (0, 9):
        settings = {**SHORT, "hidden": hidden}
        assert same(
            METHODS[name](task, **settings, **{term: 0.0}), METHODS["fedavg"](task, **settings)
        )
    changed = METHODS[name](task, **settings, **{term: strength})
    assert not same(changed, METHODS["fedavg"](task, **settings))


def test_moon_with_a_linear_head_is_fedavg(task):
    linear = {**SHORT, "hidden": 0}

    assert same(METHODS["moon"](task, **linear, mu=5.0), METHODS["fedavg"](task, **linear))


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
@pytest.mark.parametrize(("name", "strength"), [("fedprox", "mu"), ("feddyn", "alpha")])
def test_a_pull_is_the_gradient_of_its_quadratic(task, name, strength, hidden):
    """The second round against torch's own derivative of the whole loss."""
    algorithm = {"fedprox": fedprox, "feddyn": feddyn}[name].ALGORITHM
    given = {**SHORT, "epochs": 1, strength: 0.5, "hidden": hidden}
    settings = METHODS[name].settings(given)
    trainer, again = (Trainer(task, settings, algorithm) for _ in range(2))
    trainer.round()
    again.round()
    chosen, batches, steps = again.plan()
    drift = [torch.zeros(len(task.holders), 1, 1)] * len(again.server)
    if name == "feddyn":
        drift = again.memory.own

    done = trainer.train()

    for row, client in enumerate(chosen):
        own = [server.clone() for server in again.server]
        for batch in batches[row, : steps[row]]:
            own = [p.detach().requires_grad_() for p in own]
            samples = torch.from_numpy(batch[batch >= 0])
            logits = forward(own, trainer.features[samples].T[None])[0][0].T
            loss = torch.nn.functional.cross_entropy(logits, trainer.labels[samples])
            for p, server, far in zip(own, again.server, drift, strict=True):
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


def test_half_of_the_clients_send_half_of_the_bytes(task):
    whole = METHODS["fedavg"](task, **SHORT)
    half = METHODS["fedavg"](task, **SHORT, participation=0.5)

    assert whole.bytes_up == SHORT["rounds"] * len(head_message(whole.model.parameters))
    assert half.bytes_up == whole.bytes_up / 2
    # Everybody receives the final model, too.
    final = len(head_message(whole.model.parameters))
    assert whole.bytes_down == whole.bytes_up + final
    assert half.bytes_down == half.bytes_up + final
    assert half.bytes_per_client == whole.bytes_up + final
    assert [point.rounds for point in half.curve] == [1, 2, 3, 4]
    assert not same(half, whole)


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

    assert "pip install 'safle-lab[torch]'" in done.stderr
