"""A backbone and an exported model -> one ONNX file, from prepared images to classes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

from safle import Encoder, check_source
from safle.errors import BackboneError, SafleWarning
from safle_images.backbones.default import DEFAULT, export_default
from safle_images.backbones.loading import DECLARED, LARGEST_ONNX, load_backbone

if TYPE_CHECKING:
    from onnx import ModelProto

FEATURES = "features"
"""The input of an exported model."""


def join_backbone(
    head: ModelProto, encoder: Encoder, name: str
) -> tuple[ModelProto, dict[str, str]]:
    """One graph, images -> scores, label, probabilities; and facts for its user.

    Its input is the backbone's: images that are resized, cropped and normalised as its metadata
    declare under ``safle.preprocessing``.

    Parameters
    ----------
    head : an exported model, features -> scores
    encoder : the model's; `EncoderMismatch` if it was made for another backbone
    name : of a backbone, as `load_backbone` takes it

    Examples
    --------
    >>> import safle
    >>> encoder = safle.make_encoder(safle.declared_range(0, 1, feature_dim=2))
    >>> join_backbone(onnx.ModelProto(), encoder, "resnet18")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: no backbone 'resnet18'; expected efficientnet_lite0 or a file: ...
    """
    backbone = load_backbone(name, device="cpu")
    expected = encoder.contract.source
    check_source(expected, backbone.source, where=f"features of {name}", trusted=True)
    if not expected:
        warnings.warn(
            f"the model names no source of its features; expected {backbone.source}",
            SafleWarning,
            stacklevel=2,
        )
    if backbone.feature_dim != encoder.feature_dim:
        raise BackboneError(
            f"{name} gives {backbone.feature_dim} features; the model expects "
            f"{encoder.feature_dim}: name the backbone that made them"
        )
    if backbone.network.used != backbone.network.slots:
        raise BackboneError(
            f"{name} mixes the images of a call, so an image's class would depend on the others; "
            "expected a network that treats each image alone"
        )
    path = export_default() if name == DEFAULT else Path(name)
    network = _ending_in_features(onnx.load(path), backbone.network.output)
    model = _merge(network, head)
    properties = {entry.key: entry.value for entry in head.metadata_props}
    properties |= {DECLARED: backbone.preprocessing.to_json(), "safle.source": backbone.source}
    del model.metadata_props[:]
    helper.set_model_props(model, dict(sorted(properties.items())))
    onnx.checker.check_model(model)
    side = backbone.preprocessing.crop
    facts = {
        "backbone": backbone.source,
        "input": f"{model.graph.input[0].name}, float32 (batch, 3, {side}, {side})",
        "preprocessing": str(backbone.preprocessing),
    }
    return model, facts


def _ending_in_features(network: ModelProto, output: str) -> ModelProto:
    """A backbone whose one output is float32, (batch, feature_dim)."""
    prefixed = onnx.compose.add_prefix(network, "backbone/", rename_inputs=False)
    last = f"backbone/{output}"
    flat = helper.make_node("Flatten", [last], ["backbone/flat"], axis=1)
    cast = helper.make_node("Cast", ["backbone/flat"], ["backbone/made"], to=TensorProto.FLOAT)
    prefixed.graph.node.extend([flat, cast])
    del prefixed.graph.output[:]
    prefixed.graph.output.append(
        helper.make_tensor_value_info("backbone/made", TensorProto.FLOAT, ["batch", None])
    )
    return prefixed


def _merge(network: ModelProto, head: ModelProto) -> ModelProto:
    # Inner names get a prefix, so that no two are equal; inputs and outputs keep theirs.
    parts = [
        network,
        onnx.compose.add_prefix(head, "head/", rename_inputs=False, rename_outputs=False),
    ]
    newest = max(_opset(part) for part in parts)
    try:
        first, second = (
            part if _opset(part) == newest else onnx.version_converter.convert_version(part, newest)
            for part in parts
        )
    except Exception as error:  # the converter's errors have no common base class
        raise BackboneError(
            f"the backbone has ONNX opset {_opset(network)}, the model {_opset(head)}, and they "
            f"cannot be converted ({str(error)[:200]}); export the backbone with opset 17"
        ) from error
    first.ir_version = second.ir_version = max(first.ir_version, second.ir_version)
    if first.ByteSize() + second.ByteSize() > LARGEST_ONNX:
        raise BackboneError("backbone and model exceed 2 GB together; expected less: ONNX's limit")
    return onnx.compose.merge_models(first, second, io_map=[("backbone/made", FEATURES)])


def _opset(model: ModelProto) -> int:
    return int(
        next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    )
