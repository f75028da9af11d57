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

from safle.errors import BackboneError, SafleError, SafleWarning
from safle_images.backbones import (
    Preprocessing,
    export_backbone,
    export_named,
    exporting,
    load_backbone,
)
from safle_images.backbones.libraries import open_timm, timm_preprocessing
from safle_images.backbones.loading import external_files

MakeOnnx = Callable[..., Path]
FIELDS = {"resize": 36, "crop": 32, "interpolation": "bilinear"}
MOMENTS = {"mean": (120.0, 110.0, 100.0), "deviation": (60.0, 50.0, 40.0)}


def test_exported_backbone_carries_its_preprocessing(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
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
    export_named(str(two), tmp_path / "one.onnx")
    assert external_files(tmp_path / "one.onnx") == []
    assert_alike(tmp_path / "tiny.onnx", tmp_path / "one.onnx")


def assert_alike(*paths: Path) -> None:
    noise = np.random.default_rng(0).standard_normal((8, 3, 32, 32), np.float32)
    first, second = (load_backbone(str(path)).network(noise) for path in paths)
    np.testing.assert_array_equal(first, second)


# --- files of other programs -----------------------------------------------------------


def with_scores(path: Path, *, outputs: int = 1) -> Path:
    """A network with a layer of classes after its features, and other outputs before them."""
    model, helper = onnx.load(path), onnx.helper
    graph = model.graph
    weights = {"W": np.eye(6, 4, dtype=np.float32), "b": np.zeros(4, np.float32)}
    graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in weights.items())
    graph.node[-1].output[0] = "inner"
    graph.node.append(helper.make_node("Gemm", ["inner", "W", "b"], ["scores"]))
    graph.node.append(helper.make_node("Softmax", ["scores"], ["shares"]))
    del graph.output[:]
    names = ["shares", "inner", "scores"][:outputs]
    value = helper.make_tensor_value_info
    graph.output.extend(value(name, onnx.TensorProto.FLOAT, ["batch", None]) for name in names)
    onnx.save(model, path)
    return path


def test_export_needs_one_of_several_outputs_by_name(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    plain, made = tiny_onnx(tmp_path / "plain.onnx"), tmp_path / "made.onnx"
    several = with_scores(tiny_onnx(tmp_path / "several.onnx"), outputs=3)
    with pytest.raises(BackboneError, match=r"3 outputs.*--output-name: 'shares', 'inner', 'sc"):
        export_named(str(several), made)
    with pytest.raises(BackboneError, match="has no output 'features'"):
        export_named(str(several), made, output_name="features")
    assert not made.exists()
    export_named(str(several), made, output_name="inner")
    assert_alike(plain, made)
    # What only the others need is gone.
    assert {tensor.name for tensor in onnx.load(made).graph.initializer} == {"kernel"}


def test_class_scores_of_a_file_are_named(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    """And what to do: the message has the name of the features inside."""
    path = with_scores(tiny_onnx(tmp_path / "a.onnx"))
    with pytest.warns(SafleWarning, match=r"a\.onnx seems to end in class scores.* of 'inner'"):
        export_named(str(path), tmp_path / "b.onnx")
    export_named(str(path), tmp_path / "b.onnx", output_name="inner")


def test_half_precision_takes_the_same_images(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    plain = tiny_onnx(tmp_path / "plain.onnx")
    model = onnx.load(plain)
    half = onnx.TensorProto.FLOAT16
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = half
    (kernel,) = model.graph.initializer
    values = onnx.numpy_helper.to_array(kernel).astype(np.float16)
    kernel.CopyFrom(onnx.numpy_helper.from_array(values, "kernel"))
    onnx.save(model, tmp_path / "half.onnx")
    export_named(str(tmp_path / "half.onnx"), tmp_path / "made.onnx")
    noise = np.random.default_rng(0).standard_normal((8, 3, 32, 32), np.float32)
    exact, found = (
        load_backbone(str(tmp_path / f"{name}.onnx")).network(noise) for name in ("plain", "made")
    )
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_errors_speak_of_the_users_file(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = tiny_onnx(tmp_path / "mine.onnx")
    model = onnx.load(path)
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, path)
    with pytest.raises(BackboneError, match=r"mine\.onnx: ONNX Runtime cannot load") as raised:
        export_named(str(path), tmp_path / "made.onnx")
    assert "exported.onnx" not in str(raised.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.onnx"]


# --- torch -----------------------------------------------------------------------------


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
        export_backbone(network, preprocessing, tmp_path / "b.onnx")
    assert not (tmp_path / "b.onnx").exists()


def test_attention_is_exported_and_a_failure_is_short(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Frozen layers of torch take a fast path that ONNX does not have."""
    torch = pytest.importorskip("torch")

    class Tokens(torch.nn.Module):
        def __init__(self, last: Any) -> None:
            super().__init__()
            self.cut = torch.nn.Conv2d(3, 16, 8, 8)
            layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True)
            self.attend = torch.nn.TransformerEncoder(layer, 1)
            self.last = last

        def forward(self, images: Any) -> Any:
            tokens = self.cut(images).flatten(2).transpose(1, 2)
            return self.last(self.attend(tokens).mean(1))

    preprocessing = Preprocessing(**FIELDS, **MOMENTS)
    network = Tokens(torch.nn.Identity()).requires_grad_(False)
    assert export_backbone(network, preprocessing, tmp_path / "a.onnx") < 1e-5
    with pytest.raises(BackboneError, match=r"bessel_j0.*expected another size, or"):
        export_backbone(Tokens(torch.special.bessel_j0), preprocessing, tmp_path / "b.onnx")
    assert capfd.readouterr().out == ""


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
    ("differs", "resize"),
    [
        ({}, "73 bicubic"),
        # Each edge becomes 64 / 0.9 pixels long, and the middle of that is taken.
        ({"crop_mode": "squash", "crop_pct": 0.9, "interpolation": "bilinear"}, "71 squash bilin"),
    ],
)
def test_a_network_of_timm(timm: Any, tmp_path: Path, differs: dict[str, Any], resize: str) -> None:
    folder, made = save_timm(tmp_path / "tiny", timm, **differs), tmp_path / "a.onnx"
    assert export_named(f"timm:local-dir:{folder}", made) < 1e-4
    backbone = load_backbone(str(made))
    assert backbone.feature_dim == 64  # before the classifier
    assert f" resize={resize}" in backbone.source


@pytest.mark.slow
@pytest.mark.parametrize(
    "differs",
    [{}, {"interpolation": "bilinear", "crop_pct": 0.9}, {"crop_mode": "squash", "crop_pct": 0.9}],
)
def test_preprocessing_is_timms_own(timm: Any, tmp_path: Path, differs: dict[str, Any]) -> None:
    folder = save_timm(tmp_path / "tiny", timm, **differs)
    network, preprocessing = open_timm(f"local-dir:{folder}")
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    pixels = np.random.default_rng(0).integers(0, 256, (90, 133, 3)).astype(np.uint8)
    ours = np.empty((3, 64, 64), np.float32)
    preprocessing.normalise(preprocessing.fit(pixels), ours)
    np.testing.assert_allclose(ours, transform(Image.fromarray(pixels)).numpy(), atol=1e-5)


@pytest.mark.slow
def test_networks_of_timm_that_cannot_be_exported(timm: Any, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"could not be loaded \(.*no_such_network"):
        export_named("timm:no_such_network", tmp_path / "a.onnx")
    folder = save_timm(tmp_path / "tiny", timm, interpolation="lanczos")
    with pytest.raises(BackboneError, match="interpolation 'lanczos'"):
        export_named(f"timm:local-dir:{folder}", tmp_path / "a.onnx")
    padded = save_timm(tmp_path / "padded", timm, crop_mode="border")
    with pytest.warns(SafleWarning, match="pads images to a square"):
        open_timm(f"local-dir:{padded}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["padded", "tiny"]


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
    with pytest.raises(SafleError, match=r"operator nms does not exist"):
        export_named("timm:resnet18", tmp_path / "a.onnx")
