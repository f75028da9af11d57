"""Any network becomes a backbone by name: exported once, with what belongs to it, and checked."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from safle.errors import BackboneError, SafleError
from safle_images.backbones import Preprocessing, exporting, load_backbone
from safle_images.backbones.exporting import (
    export_backbone,
    export_named,
    open_timm,
    timm_preprocessing,
)
from safle_images.backbones.loading import external_files

MakeOnnx = Callable[..., Path]
FIELDS = {"resize": 36, "crop": 32, "interpolation": "bilinear"}
MOMENTS = {"mean": (120.0, 110.0, 100.0), "deviation": (60.0, 50.0, 40.0)}


def test_what_is_said_once_is_in_the_file(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    bare, made = tiny_onnx(tmp_path / "bare.onnx", declared=False), tmp_path / "made.onnx"
    with pytest.raises(BackboneError, match="--interpolation, --mean, --deviation"):
        export_named(str(bare), made, preprocessing={"resize": 36, "crop": 32})
    assert not made.exists()
    assert export_named(str(bare), made, preprocessing=FIELDS | MOMENTS) == 0.0
    assert load_backbone(str(made)).preprocessing == Preprocessing(**FIELDS, **MOMENTS)
    # Another client has the file and nothing else.
    again = tmp_path / "again.onnx"
    export_named(str(made), again)
    assert again.read_bytes() == made.read_bytes()


def test_weights_in_a_second_file_are_inside_from_then_on(
    tmp_path: Path, tiny_onnx: MakeOnnx
) -> None:
    model = onnx.load(tiny_onnx(tmp_path / "tiny.onnx"))
    (tmp_path / "two").mkdir()
    two = tmp_path / "two" / "a.onnx"
    onnx.save(model, two, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert export_named(str(two), tmp_path / "one.onnx") == 0.0
    assert external_files(tmp_path / "one.onnx") == []


def test_a_network_in_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    preprocessing = Preprocessing(**FIELDS, **MOMENTS)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 8, 8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    assert export_backbone(network, preprocessing, tmp_path / "a.onnx") < 1e-5
    assert load_backbone(str(tmp_path / "a.onnx")).preprocessing == preprocessing
    monkeypatch.setattr(exporting, "LARGEST_DIFFERENCE", -1.0)
    with pytest.raises(BackboneError, match="differ from the source's"):
        export_backbone(network, preprocessing, tmp_path / "a.onnx")


def test_the_recipe_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    page = (Path(__file__).parents[4] / "docs" / "backbones.md").read_text()
    (recipe,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})
    assert load_backbone("network.onnx").feature_dim == 16


# --- timm ------------------------------------------------------------------------------


CONFIG = {
    "input_size": [3, 64, 64],
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "num_classes": 5,
    "classifier": "head",
    "first_conv": "patch_embed.proj",
}


def save_timm(folder: Path, timm: Any, **differs: Any) -> Path:
    """A small network with random weights in a folder, as the hub has it."""
    from safetensors.torch import save_file

    folder.mkdir()
    network = timm.create_model("test_vit", num_classes=5, img_size=64)
    save_file(network.state_dict(), folder / "model.safetensors")
    config = {"pretrained_cfg": {**CONFIG, **differs}, "model_args": {"img_size": 64}}
    about = {"architecture": "test_vit", "num_classes": 5, "num_features": 64, **config}
    (folder / "config.json").write_text(json.dumps(about))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("differs", "resize", "noted"),
    [
        ({}, 73, False),
        # Each edge becomes 64 / 0.9 pixels long, and the middle of that is taken.
        ({"crop_mode": "squash", "crop_pct": 0.9, "interpolation": "bilinear"}, 71, True),
    ],
)
def test_a_network_of_timm(
    timm: Any, tmp_path: Path, differs: dict[str, Any], resize: int, noted: bool
) -> None:
    notes: list[str] = []
    folder, made = save_timm(tmp_path / "tiny", timm, **differs), tmp_path / "a.onnx"
    assert export_named(f"timm:local-dir:{folder}", made, note=notes.append) < 1e-4
    backbone = load_backbone(str(made))
    assert backbone.feature_dim == 64  # before the classifier
    assert backbone.preprocessing.resize == resize
    assert ["squashes or pads" in note for note in notes] == [True] * noted


@pytest.mark.slow
@pytest.mark.parametrize("differs", [{}, {"interpolation": "bilinear", "crop_pct": 0.9}])
def test_preprocessing_is_timms_own(timm: Any, tmp_path: Path, differs: dict[str, Any]) -> None:
    """Squares: where the middle of a longer one begins, libraries differ by half a pixel."""
    folder = save_timm(tmp_path / "tiny", timm, **differs)
    network, preprocessing = open_timm(f"local-dir:{folder}", lambda _: None)
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    pixels = np.random.default_rng(0).integers(0, 256, (90, 90, 3)).astype(np.uint8)
    ours = np.empty((3, 64, 64), np.float32)
    preprocessing.normalise(preprocessing.fit(pixels), ours)
    np.testing.assert_allclose(ours, transform(Image.fromarray(pixels)).numpy(), atol=1e-5)


@pytest.mark.slow
def test_networks_of_timm_that_cannot_be_exported(timm: Any, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"could not be loaded \(.*no_such_network"):
        export_named("timm:no_such_network", tmp_path / "a.onnx")
    folder = save_timm(tmp_path / "tiny", timm, interpolation="lanczos")
    with pytest.raises(BackboneError, match="interpolation 'lanczos'; expected bilinear or"):
        export_named(f"timm:local-dir:{folder}", tmp_path / "a.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_images_that_are_not_square_are_not_taken_for_it() -> None:
    config = {"input_size": (3, 224, 160), "interpolation": "bicubic", "crop_pct": 1.0}
    with pytest.raises(BackboneError, match="3 colours of 224 x 160 pixels"):
        timm_preprocessing(config)


def test_a_timm_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where torchvision was built for another torch."""
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(SafleError, match=r"cannot be imported \(operator nms does not exist\)"):
        export_named("timm:resnet18", tmp_path / "a.onnx")
