"""Any network becomes a backbone by name: exported once, with what belongs to it, and checked."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from safle.basics.optional import require
from safle.errors import BackboneError, MissingExtra, SafleError
from safle.tables import read_moments
from safle_images.backbones import Preprocessing, adding, load_backbone
from safle_images.backbones.adding import add_backbone, export_backbone
from safle_images.backbones.catalogue import CARDS
from safle_images.backbones.loading import name_in
from safle_images.backbones.moments import shipped_moments
from safle_images.backbones.origins import hugging_face_preprocessing, timm_preprocessing
from support.tiny_models import save_hugging_face

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

STAND_INS = Path(__file__).parents[3] / "packages/safle/tests/support/stand_ins"
MakeOnnx = Callable[..., Path]
FIELDS = {"resize": 36, "crop": 32, "interpolation": "bilinear"}
MOMENTS = {"mean": (120.0, 110.0, 100.0), "deviation": (60.0, 50.0, 40.0)}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_that_says_all_is_taken_as_it_is(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = tiny_onnx(tmp_path / "tiny.onnx")
    added = add_backbone(str(path))
    assert (added.name, added.difference) == ("tiny", 0.0)
    assert added.path.read_bytes() == path.read_bytes()
    assert load_backbone("tiny").source == load_backbone(str(path)).source
    assert name_in(added.backbone.source) == "tiny"
    assert name_in(added.backbone.source.replace("weights=", "weights=0")) is None


def test_what_is_said_once_is_in_the_file(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = tiny_onnx(tmp_path / "bare.onnx", declared=False)
    with pytest.raises(BackboneError, match="safle backbones add"):
        add_backbone(str(path))
    assert not list((tmp_path / "cache" / "added").iterdir())
    added = add_backbone(str(path), name="mine", preprocessing=FIELDS | MOMENTS)
    # Another client has the file and nothing else.
    handed = tmp_path / "handed.onnx"
    handed.write_bytes(added.path.read_bytes())
    again = add_backbone(str(handed))
    assert again.backbone.source == added.backbone.source


@pytest.mark.parametrize(
    ("what", "name", "found"),
    [
        ("network.pth", None, "expected timm:NAME, hf:NAME or FILE.onnx"),
        ("tiny.onnx", "resnet18", "choose one: --name"),
        ("tiny.onnx", "../outside", "choose one: --name"),
    ],
)
def test_what_cannot_be_added(what: str, name: str | None, found: str) -> None:
    with pytest.raises(BackboneError, match=found):
        add_backbone(what, name=name)


def test_a_network_in_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    preprocessing = Preprocessing(**FIELDS, **MOMENTS)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 8, 8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    assert export_backbone(network, preprocessing, tmp_path / "a.onnx") < 1e-5
    assert load_backbone(str(tmp_path / "a.onnx")).preprocessing == preprocessing
    monkeypatch.setattr(adding, "_in_torch", lambda _: lambda images: np.ones((len(images), 5)))
    with pytest.raises(BackboneError, match="differ from the source's"):
        export_backbone(network, preprocessing, tmp_path / "a.onnx")


def test_the_recipe_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    page = (Path(__file__).parents[3] / "docs" / "backbones.md").read_text()
    (recipe,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})
    assert load_backbone("network.onnx").feature_dim == 16


DINOV2 = {
    "size": {"shortest_edge": 256},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def test_declarations_of_hugging_face() -> None:
    published = "mean=123.675,116.28,103.53 deviation=58.395,57.12,57.375"
    found = str(hugging_face_preprocessing(DINOV2))
    assert found == f"resize=256 bicubic crop=224 {published}"
    squashed = {**DINOV2, "size": {"height": 224, "width": 224}, "do_center_crop": False}
    assert str(hugging_face_preprocessing(squashed)).startswith("resize=224 bicubic crop=224 ")
    with pytest.raises(BackboneError, match="expected bilinear or bicubic"):
        hugging_face_preprocessing({**DINOV2, "resample": 0})


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """timm, or what stands in for it: see `support.stand_ins`."""
    pytest.importorskip("torch")
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(STAND_INS)
    yield
    for name in ("timm", "timm.data"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("configured", "resize", "noted"),
    [
        ("", 73, False),
        # Each edge becomes 64 / 0.9 pixels long, and the middle of that is taken.
        ("@crop_mode=squash,crop_pct=0.9,interpolation=bilinear", 71, True),
        ("@crop_mode=border,crop_pct=1", 64, True),
    ],
)
def test_a_network_of_timm(configured: str, resize: int, noted: bool) -> None:
    notes: list[str] = []
    added = add_backbone(f"timm:convnext_tiny.fb_in22k{configured}", name="tiny", note=notes.append)
    assert added.backbone.feature_dim == 16  # what stands before the classifier
    assert added.backbone.preprocessing.resize == resize
    assert added.difference < 1e-5
    assert load_backbone("tiny").source == added.backbone.source
    assert ["squashes or pads" in note for note in notes] == [True] * noted


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("no_such_network", r"could not be loaded \(Unknown model \(no_such_network\)\)"),
        ("tiny@interpolation=lanczos", "resizes images by 'lanczos'; expected bilinear or"),
    ],
)
def test_networks_of_timm_that_cannot_be_added(name: str, found: str) -> None:
    with pytest.raises(BackboneError, match=found):
        add_backbone(f"timm:{name}", name="tiny")


def test_images_that_are_not_square_are_not_taken_for_it() -> None:
    config = {"input_size": (3, 224, 160), "interpolation": "bicubic", "crop_pct": 1.0}
    with pytest.raises(BackboneError, match="3 colours of 224 x 160 pixels"):
        timm_preprocessing(config)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "feature_dim"), [("dinov2", 32), ("clip", 24)])
def test_a_model_of_hugging_face(model: str, feature_dim: int, tmp_path: Path) -> None:
    save_hugging_face(model, tmp_path / model)
    added = add_backbone(f"hf:{tmp_path / model}")
    assert (added.name, added.backbone.feature_dim) == (model, feature_dim)
    assert added.difference < 0.01


def test_libraries_that_are_not_there_are_named() -> None:
    if importlib.util.find_spec("timm") is None:
        with pytest.raises(MissingExtra, match=r"needs timm.*safle\[export\]"):
            add_backbone("timm:convnext_tiny")


def test_libraries_that_cannot_be_imported_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torchvision, when it was built for another torch."""
    (tmp_path / "broken.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SafleError, match=r"cannot be imported \(operator nms does not exist\)"):
        require("broken", "safle-images[export]", "this")


def test_shipped_moments_fit_the_catalogue() -> None:
    for name in ("efficientnet_lite0", "mobilenet_v2"):
        moments, source = read_moments(shipped_moments(name))
        card = CARDS[name]
        assert moments.feature_dim == card.feature_dim
        assert source == f"{name} weights={card.origin.digest} {card.preprocessing}"
        assert moments.deviation.min() > 0
