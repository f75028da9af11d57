"""Fixtures of all tests; strategies and helpers are modules in `support`."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Before the first import of NumPy, and for every process that a test starts: two workers whose
# libraries each take both cores wait for each other, which makes small products 4x slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_digits

from safle import _native
from safle._native import cores

# The same examples in every run, and no deadline; `make test-all` runs the theorems with 100.
settings.register_profile("few", settings.get_profile("ci"), max_examples=30)
# Where a processor is emulated.
settings.register_profile("fewest", settings.get_profile("ci"), max_examples=2)
settings.load_profile("few")

IMAGES = Path(__file__).with_name("safle-images") / "tests"
LONGEST = (
    *("test_processes.py", "test_forger.py", "test_benchmarks.py"),
    *("test_superlink_dies.py", "test_build.py", "test_demo.py"),
    *("test_experiments.py", "test_nginx.py", "test_store_kill.py"),
    *("test_cli_faults.py", "test_store_command.py", "test_round.py"),
)
"""Files that take longest. They begin first, those that wait beside those that compute: a worker
that began one last would keep the others waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's handwritten digits: features and labels."""
    features, labels = load_digits(return_X_y=True)
    return features, labels


@pytest.fixture(scope="session")
def tiny_onnx() -> Callable[..., Path]:
    """``tiny_onnx(path)``: a convolution, an activation and a mean, as an ONNX file.

    ``declared`` says how images are prepared; ``mixed`` adds the batch's mean to every image.
    """

    # By its path: tests cannot import each other.
    return runpy.run_path(str(IMAGES / "image_support/tiny_onnx.py"))["save_tiny_onnx"]


@pytest.fixture(scope="session")
def torchvision() -> Any:
    """The real one: its networks, their weights and transforms.

    Its compiled part does not load beside another build of torch. Networks do not need it, only
    the names of two operators.
    """
    torch = pytest.importorskip("torch")
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    try:
        return import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    # What it declares is gone when it is.
    torch.safle_declared = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.safle_declared.define(name + boxes)
    return import_module("torchvision")


@pytest.fixture(scope="session")
def timm(torchvision: Any) -> Any:
    """The real timm, which imports torchvision."""
    return pytest.importorskip("timm")


@pytest.fixture(scope="session")
def transformers(torchvision: Any) -> Any:
    """The real transformers, whose image processors import torchvision."""
    return pytest.importorskip("transformers")


@pytest.fixture
def safle() -> Callable[..., str]:
    """``safle("count", ..., code=0)``: the command, in this process; what it printed."""
    from support import command

    return lambda *words, code=0: "".join(command.safle(*words, code=code))


@pytest.fixture(autouse=True, scope="session")
def _own_log(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What tests send is not in the log of whoever runs them, nor judged by their policy."""
    os.environ["SAFLE_LOG"] = str(tmp_path_factory.mktemp("log") / "log.jsonl")
    os.environ.pop("SAFLE_POLICY", None)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny kernels on cores that parallel test runs share: waiting for a thread is slower."""
    with cores.use_threads(1):
        yield


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The test runs once for every number of kernel threads."""
    with cores.use_threads(request.param):
        yield request.param


@pytest.fixture(params=_native.LEVELS)
def kernel_level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The test runs once for every instruction level that this machine has."""
    if request.param not in _native.LEVELS[: _native.LEVELS.index(_native.level()) + 1]:
        pytest.skip(f"this machine has no {request.param}")
    monkeypatch.setenv(_native.VARIABLE, request.param)
    _native.level.cache_clear()
    yield request.param
    monkeypatch.undo()
    _native.level.cache_clear()
