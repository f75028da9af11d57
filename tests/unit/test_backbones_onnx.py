"""Any ONNX file is a backbone, if it says how its images are prepared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from safle.data.backbones import Preprocessing, load_backbone
from safle.data.backbones.networks import settle_slots
from safle.errors import BackboneError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

GIVEN = Preprocessing(
    resize=36, crop=32, interpolation="bilinear", mean=(120, 110, 100), deviation=(60, 50, 40)
)
MakeOnnx = Callable[..., Path]


def test_identity_is_content_and_preprocessing(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    first = load_backbone(str(tiny_onnx(tmp_path / "a.onnx")))
    same = load_backbone(str(tiny_onnx(tmp_path / "b.onnx")))
    other = load_backbone(str(tiny_onnx(tmp_path / "c.onnx", feature_dim=7)))
    sharper = load_backbone(str(tmp_path / "a.onnx"), preprocessing={"interpolation": "bicubic"})
    assert first.source == same.source
    assert len({first.source, other.source, sharper.source}) == 3
    assert "resize=36 bilinear crop=32 mean=120,110,100 deviation=60,50,40" in first.source


def test_preprocessing_is_declared_or_given(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = str(tiny_onnx(tmp_path / "a.onnx", declared=False))
    with pytest.raises(BackboneError, match="--resize, --crop, --interpolation, --mean"):
        load_backbone(path)
    assert load_backbone(path, preprocessing=GIVEN.__dict__).preprocessing == GIVEN


def test_onnx_files_that_are_none(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    (tmp_path / "a.onnx").write_bytes(b"not protobuf")
    with pytest.raises(BackboneError, match="cannot load"):
        load_backbone(str(tmp_path / "a.onnx"))
    with pytest.raises(FileNotFoundError):
        load_backbone(str(tmp_path / "b.onnx"))


def test_weights_in_a_second_file_are_refused(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    model = onnx.load(tiny_onnx(tmp_path / "a.onnx"))
    onnx.save(model, tmp_path / "b.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(BackboneError, match="weights inside"):
        load_backbone(str(tmp_path / "b.onnx"))


def test_an_input_of_another_size(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = tiny_onnx(tmp_path / "a.onnx", side=40)
    with pytest.raises(BackboneError, match="--crop 40"):
        load_backbone(str(path))


def test_inputs_that_are_no_images(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    helper = onnx.helper
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 7])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 7])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "a.onnx")
    with pytest.raises(BackboneError, match=r"expected one float tensor \(batch, 3"):
        load_backbone(str(tmp_path / "a.onnx"))


def test_places_of_a_network_are_alike(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    backbone = load_backbone(str(tiny_onnx(tmp_path / "a.onnx")))
    assert settle_slots(backbone.network, 32) == 6
    assert backbone.network.used == backbone.network.slots == 8
