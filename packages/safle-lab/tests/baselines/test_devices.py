"""Methods that use torch keep all that they compute with on one device.

No card is needed: torch's device "meta" has shapes and no values, and refuses most products with
what was left on the processor.
"""

from __future__ import annotations

import numpy as np
import pytest

from safle.errors import InvalidInput
from safle_lab.baselines import method_named
from safle_lab.baselines.base import Task
from safle_lab.baselines.heads import on_device

torch = pytest.importorskip("torch", reason="iterative methods need torch")

WITHOUT_CHOICES = (
    *("fedavg", "fedprox", "feddyn", "fednova", "moon", "fedntd", "fedkd"),
    *("one-shot-average", "one-shot-ensemble", "local"),
)
"""Methods whose steps do not depend on values, which "meta" does not have."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The device of all that leaves torch; what has no values becomes zeros."""
    devices: list[str] = []

    def numpy(tensor: torch.Tensor, *, force: bool = False) -> np.ndarray:
        assert force
        devices.append(tensor.device.type)
        return np.zeros(tuple(tensor.shape), np.float32)

    monkeypatch.setattr(torch.Tensor, "numpy", numpy)
    return devices


@pytest.mark.parametrize("name", WITHOUT_CHOICES)
def test_a_method_stays_on_its_device(task: Task, seen: list[str], name: str) -> None:
    method = method_named(name)
    short = {"rounds": 2} if "rounds" in method.defaults.__struct_fields__ else {}
    with torch.device("meta"):
        method(task, **short)
    assert {*seen} == {"meta"}


def test_device_cpu_changes_nothing() -> None:
    with on_device("cpu"):
        assert torch.zeros(1).device.type == "cpu"


@pytest.mark.parametrize("name", ["gpu", "gpu:7", "cuda", "auto", "gpu:"])
def test_a_card_that_is_not_there(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InvalidInput, match="torch finds 0 graphics cards"), on_device(name):
        pass


@pytest.mark.parametrize(("name", "place"), [("gpu", "cuda:0"), ("gpu:1", "cuda:1")])
def test_a_card_by_its_number(monkeypatch: pytest.MonkeyPatch, name: str, place: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with on_device(name):
        assert torch.get_default_device() == torch.device(place)
    assert torch.get_default_device() == torch.device("cpu")
