"""A network runs where it is said to run, and a card has what to do.

No card is needed. A stand-in for ONNX Runtime says that a session runs on one, or why it does not,
and computes on the processor.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

from image_support.archives import encoded
from safle import open_table
from safle.errors import BackboneError, SafleWarning
from safle_images.backbones import Backbone, extract, extraction, load_backbone, write_features
from safle_images.backbones.devices import CUDA, halve
from safle_images.backbones.loading import OnnxNetwork, settle_slots
from safle_images.readers import ImageSource, decode

MakeOnnx = Callable[..., Path]


class Session:
    """A real session on the processor, which may say that it is on a card."""

    def __init__(self, real: Any, providers: list[str]) -> None:
        self.real = real
        self.providers = providers
        self.calls: list[np.ndarray] = []
        self.threads: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def get_providers(self) -> list[str]:
        return self.providers

    def run(self, names: list[str], inputs: dict[str, np.ndarray]) -> Any:
        self.threads.add(threading.current_thread().name)
        self.calls += inputs.values()
        return self.real.run(names, inputs)


class Runtime(ModuleType):
    """ONNX Runtime built for cards, on a machine that has the ``cards``."""

    def __init__(self, cards: tuple[str, ...]) -> None:
        super().__init__("onnxruntime")
        self.__path__ = onnxruntime.__path__
        self.SessionOptions = onnxruntime.SessionOptions
        self.cards = cards
        self.preloaded = 0
        self.sessions: list[Session] = []
        self.asked: list[dict[str, str]] = []

    def get_available_providers(self) -> list[str]:
        return [CUDA, "CPUExecutionProvider"]

    def preload_dlls(self) -> None:
        self.preloaded += 1
        if not self.cards:
            sys.stdout.write("Failed to load libcublasLt.so.13\n")

    def InferenceSession(  # noqa: N802
        self, model: Any, options: Any, *, providers: Any, enable_fallback: int
    ) -> Session:
        assert not enable_fallback
        real = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found = ["CPUExecutionProvider"]
        if providers != found and self.cards:
            _, settings = providers[0]
            self.asked.append(settings)
            if settings["device_id"] not in self.cards:
                raise RuntimeError("CUDA failure 101: invalid device ordinal")
            found = [CUDA, *found]
        self.sessions.append(Session(real, found))
        return self.sessions[-1]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runtime]:
    def make(*cards: str) -> Runtime:
        runtime = Runtime(cards)
        monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
        return runtime

    return make


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, tiny_onnx: MakeOnnx) -> str:
    return str(tiny_onnx(tmp_path_factory.mktemp("onnx") / "tiny.onnx"))


def images(count: int, broken: int = 0) -> ImageSource:
    names = [f"{at}.png" for at in range(count)]
    data = [b"no image" if broken and at % broken == 0 else encoded(seed=at) for at in range(count)]
    return ImageSource("toys", None, names, [None] * count, [], lambda start: iter(data[start:]))


# --- Which device --------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "card"), [("auto", "0"), ("gpu", "0"), ("gpu:1", "1")])
def test_a_card_that_runs_is_taken(
    stand_in: Callable[..., Runtime], path: str, device: str, card: str
) -> None:
    runtime = stand_in("0", "1")
    backbone = load_backbone(path, device=device)
    assert backbone.network.device == f"gpu:{card}"
    assert backbone.source == load_backbone(path, device="cpu").source
    assert [settings["device_id"] for settings in runtime.asked] == [card]
    assert runtime.asked[0]["use_tf32"] == "0"
    assert runtime.preloaded == 1


@pytest.mark.parametrize("device", ["gpu", "gpu:1"])
def test_a_card_that_does_not_run_is_an_error(
    stand_in: Callable[..., Runtime], path: str, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONNX Runtime's build for cards gives a session on the processor, without an error."""
    stand_in()
    with pytest.raises(BackboneError, match=r"does not run \(Failed to load libcublas"):
        load_backbone(path, device=device)
    assert not capsys.readouterr().out


def test_a_card_too_many_is_an_error(stand_in: Callable[..., Runtime], path: str) -> None:
    stand_in("0")
    with pytest.raises(BackboneError, match=r"gpu:1 does not run \(.*invalid device"):
        load_backbone(path, device="gpu:1")


def test_auto_says_that_a_card_does_not_run(stand_in: Callable[..., Runtime], path: str) -> None:
    stand_in()
    with pytest.warns(SafleWarning, match=r"gpu:0 does not run \(.*cpu is used"):
        assert load_backbone(path, device="auto").network.device == "cpu"


def test_cpu_asks_for_no_card(stand_in: Callable[..., Runtime], path: str) -> None:
    runtime = stand_in("0")
    assert load_backbone(path, device="cpu").network.device == "cpu"
    assert not runtime.asked
    assert not runtime.preloaded


def test_runtimes_before_preload_dlls(
    stand_in: Callable[..., Runtime], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("0")
    monkeypatch.delattr(Runtime, "preload_dlls")
    assert load_backbone(path, device="gpu").network.device == "gpu:0"


def test_the_runtime_for_processors_has_no_card(path: str) -> None:
    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("it is built for cards")
    assert load_backbone(path).network.device == "cpu"
    with pytest.raises(BackboneError, match=r"processors alone.*safle-images\[gpu\]"):
        load_backbone(path, device="gpu")


@pytest.mark.parametrize("device", ["cuda", "gpu:", "gpu:x", "gpu:-1", "", "gpu:1234", "cpu:0"])
def test_device_names_are_checked(path: str, device: str) -> None:
    with pytest.raises(BackboneError, match="expected auto, cpu, gpu"):
        load_backbone(path, device=device)


@pytest.mark.parametrize("left", [None, ModuleType("onnxruntime")])
def test_missing_runtime_names_both_packages(
    monkeypatch: pytest.MonkeyPatch, path: str, left: ModuleType | None
) -> None:
    """Nothing is installed, or one of two packages took the other's files with it."""
    monkeypatch.setitem(sys.modules, "onnxruntime", left)
    with pytest.raises(BackboneError, match=r"safle-images\[cpu\].*safle-images\[gpu\]"):
        load_backbone(path)


# --- What the file says --------------------------------------------------------------------------


def test_the_file_remembers_the_device(
    stand_in: Callable[..., Runtime], path: str, tmp_path: Path
) -> None:
    stand_in("0", "1")
    tables = []
    for device in ("cpu", "gpu:1"):
        output = tmp_path / f"{device[:3]}.safetensors"
        write_features(images(3), load_backbone(path, device=device), output)
        tables.append(open_table(output))
    assert [table.device for table in tables] == ["cpu", "gpu:1"]
    assert tables[0].source == tables[1].source


def test_a_run_does_not_go_on_elsewhere(
    stand_in: Callable[..., Runtime], path: str, tmp_path: Path
) -> None:
    """A file's features come from one device."""
    stand_in("0")
    output = tmp_path / "f.safetensors"

    def stop(done: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_features(images(9), load_backbone(path), output, batch=3, advance=stop)
    notes: list[str] = []
    on_cpu = load_backbone(path, device="cpu")
    assert write_features(images(9), on_cpu, output, note=notes.append).resumed == 0
    assert "device" in notes[0]


# --- Half ----------------------------------------------------------------------------------------


def test_half_is_another_source(stand_in: Callable[..., Runtime], path: str) -> None:
    stand_in("0")
    whole = load_backbone(path)
    half = load_backbone(path, half=True)
    assert half.source == f"{whole.source} half"
    (a,), (b,) = (extract(images(9).records(), backbone) for backbone in (whole, half))
    assert (a.features != b.features).any()
    np.testing.assert_allclose(b.features, a.features, rtol=5e-3)


@pytest.mark.parametrize("device", ["auto", "cpu", "gpu"])
def test_half_needs_a_card(stand_in: Callable[..., Runtime], path: str, device: str) -> None:
    stand_in()
    with pytest.raises(BackboneError, match="16 bits need a card"):
        load_backbone(path, device=device, half=True)


def test_halved_weights_have_half_the_size(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = tiny_onnx(tmp_path / "wide.onnx", feature_dim=600)
    assert len(halve(path)) < 0.51 * path.stat().st_size


# --- A card's calls ------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [0, 5])
def test_calls_of_a_card_are_full(stand_in: Callable[..., Runtime], path: str, broken: int) -> None:
    """Whatever the batch is, and whatever cannot be read: only the last call may have room."""
    runtime = stand_in("0")
    backbone = load_backbone(path)
    assert backbone.network.slots == 64
    runtime.sessions[-1].calls.clear()
    parts = [*extract(images(200, broken).records(), backbone, batch=7, workers=3)]
    readable = sum(len(part.names) for part in parts)
    calls = runtime.sessions[-1].calls
    assert len(calls) == -(-readable // 64)
    assert sorted(int(call.any(axis=(1, 2, 3)).sum()) for call in calls)[1:] == [64] * (
        readable // 64
    )
    assert sum(part.images for part in parts) == 200


def test_a_card_has_callers_of_its_own(stand_in: Callable[..., Runtime], path: str) -> None:
    runtime = stand_in("0")
    backbone = load_backbone(path)
    runtime.sessions[-1].threads.clear()
    assert len([*extract(images(130).records(), backbone, batch=130, workers=1)]) == 1
    assert {name.rpartition("_")[0] for name in runtime.sessions[-1].threads} == {"safle-card"}


def test_the_next_images_are_decoded_while_a_card_computes(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call ends only when the second one's images are ready."""
    decoded = threading.Semaphore(0)
    ready: list[bool] = []

    def counted(data: bytes) -> np.ndarray:
        pixels = decode(data)
        decoded.release()
        return pixels

    class Card:
        device = "gpu:0"
        slots = used = 8

        def __call__(self, inputs: np.ndarray) -> np.ndarray:
            ready.extend(decoded.acquire(timeout=20) for _ in range(16 if not ready else 0))
            return np.zeros((8, 6), np.float32)

    monkeypatch.setattr(extraction, "decode", counted)
    preprocessing = load_backbone(path, device="cpu").preprocessing
    card = Backbone("card", "card", preprocessing, Card(), 6)
    assert sum(part.images for part in extract(images(40).records(), card, workers=1)) == 40
    assert ready == [True] * 16


@pytest.mark.parametrize(("side", "slots"), [(32, 64), (224, 64), (448, 16), (518, 11), (4096, 1)])
def test_larger_images_have_smaller_calls(
    stand_in: Callable[..., Runtime], path: str, side: int, slots: int
) -> None:
    stand_in("0")
    assert OnnxNetwork(Path(path), where="tiny", device="gpu", side=side).slots == slots


def test_slots_of_a_card_are_alike(stand_in: Callable[..., Runtime], path: str) -> None:
    stand_in("0")
    network = load_backbone(path).network
    assert settle_slots(network, 32) == 6
    assert network.used == network.slots == 64
