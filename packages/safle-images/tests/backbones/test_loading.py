"""Any ONNX file is a backbone, if it says how its images are prepared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from safle.errors import BackboneError
from safle_images.backbones import export_named, load_backbone
from safle_images.backbones.loading import settle_slots

MakeOnnx = Callable[..., Path]


def test_identity_is_content_and_preprocessing(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    first = load_backbone(str(tiny_onnx(tmp_path / "a.onnx")))
    same = load_backbone(str(tiny_onnx(tmp_path / "b.onnx")))
    other = load_backbone(str(tiny_onnx(tmp_path / "c.onnx", feature_dim=7)))
    export_named(
        str(tmp_path / "a.onnx"), tmp_path / "d.onnx", preprocessing={"interpolation": "bicubic"}
    )
    sharper = load_backbone(str(tmp_path / "d.onnx"))
    assert first.source == same.source
    assert len({first.source, other.source, sharper.source}) == 3
    assert "resize=36 bilinear crop=32 mean=120,110,100 deviation=60,50,40" in first.source


def test_preprocessing_must_be_declared(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = str(tiny_onnx(tmp_path / "a.onnx", declared=False))
    with pytest.raises(BackboneError, match=r"safle backbones export .*--resize"):
        load_backbone(path)


def test_invalid_onnx_files_are_refused(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    (tmp_path / "a.onnx").write_bytes(b"not protobuf")
    with pytest.raises(BackboneError, match="not an ONNX file"):
        load_backbone(str(tmp_path / "a.onnx"))
    for name in ("resnet50", str(tmp_path / "b.onnx")):
        with pytest.raises(
            BackboneError, match=r"no backbone .*lite0.*torchvision:NAME -o FILE\.onnx"
        ):
            load_backbone(name)


def save_external(folder: Path, model: onnx.ModelProto, location: str = "weights.bin") -> Path:
    """The model with its weights in a second file."""
    folder.mkdir()
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(
        copy, folder / "a.onnx", save_as_external_data=True, location=location, size_threshold=0
    )
    return folder / "a.onnx"


def test_weights_in_a_second_file_are_refused(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    """Other weights there would be another backbone with the same digest."""
    path = save_external(tmp_path / "two", onnx.load(tiny_onnx(tmp_path / "a.onnx")))
    with pytest.raises(BackboneError, match=r"has weights in 'weights\.bin'.*backbones export"):
        load_backbone(str(path))


def test_weights_of_a_node_in_a_second_file(tmp_path: Path) -> None:
    """A node's constant, deep in the graph or not, can be elsewhere, too."""
    tensor = onnx.numpy_helper.from_array(np.ones(4, np.float32), "c")
    onnx.external_data_helper.set_external_data(tensor, "c.bin")
    node = onnx.helper.make_node("Constant", [], ["c"], value=tensor)
    body = onnx.helper.make_graph([node], "body", [], [])
    branch = onnx.helper.make_node("If", ["x"], ["c"], then_branch=body, else_branch=body)
    for at, inner in enumerate((node, branch)):
        graph = onnx.helper.make_graph([inner], "g", [], [])
        model = onnx.helper.make_model(graph)
        (tmp_path / f"{at}.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(BackboneError, match=r"'c\.bin', which is not a regular"):
            load_backbone(str(tmp_path / f"{at}.onnx"))


@pytest.mark.parametrize("place", ["missing", "link", "../up.bin", "/etc/hostname", "sub/w.bin"])
def test_weights_that_are_not_beside_the_model(
    tmp_path: Path, tiny_onnx: MakeOnnx, place: str
) -> None:
    path = save_external(tmp_path / "a", onnx.load(tiny_onnx(tmp_path / "a.onnx")))
    weights = path.parent / "weights.bin"
    if place in ("missing", "link"):
        weights.rename(tmp_path / "elsewhere.bin")
        if place == "link":
            weights.symlink_to(tmp_path / "elsewhere.bin")
    else:
        model = onnx.load(path, load_external_data=False)
        model.graph.initializer[0].external_data[0].value = place
        path.write_bytes(model.SerializeToString())
        target = path.parent / place
        if "bin" in place:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(weights.read_bytes())
    with pytest.raises(BackboneError, match="not a regular file beside it"):
        load_backbone(str(path))


def test_an_input_of_another_size(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    path = tiny_onnx(tmp_path / "a.onnx", side=40)
    with pytest.raises(BackboneError, match="--crop 40"):
        load_backbone(str(path))


def test_backbone_inputs_must_be_images(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    tiny, helper = tiny_onnx(tmp_path / "tiny.onnx"), onnx.helper
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 7])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 7])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    declared = {entry.key: entry.value for entry in onnx.load(tiny).metadata_props}
    helper.set_model_props(model, declared)
    onnx.save(model, tmp_path / "a.onnx")
    with pytest.raises(BackboneError, match=r"expected one float tensor \(batch, 3"):
        load_backbone(str(tmp_path / "a.onnx"))


def test_places_of_a_network_are_alike(tmp_path: Path, tiny_onnx: MakeOnnx) -> None:
    backbone = load_backbone(str(tiny_onnx(tmp_path / "a.onnx")))
    assert settle_slots(backbone.network, 32) == 6
    assert backbone.network.used == backbone.network.slots == 8
