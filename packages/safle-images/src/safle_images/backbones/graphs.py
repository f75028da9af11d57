"""An ONNX file of another program -> one file: all its weights, one output, its preprocessing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from safle.basics import atomic, name_some
from safle.errors import BackboneError
from safle_images.backbones.loading import DECLARED, LARGEST_ONNX, external_files
from safle_images.backbones.preprocessing import Preprocessing

IMAGENET = (1000, 1001, 21841, 21843)
"""Numbers of classes of its two versions, with and without a class for the rest."""
SHAPING = ("Softmax", "LogSoftmax", "Identity", "Cast", "Flatten", "Reshape", "Squeeze")


def stamp_preprocessing(
    path: Path, preprocessing: Preprocessing, target: Path, *, output: str | None = None
) -> None:
    """Write a copy of an ONNX file that declares its preprocessing and holds all its weights.

    Parameters
    ----------
    output : the name of the features, any value in the graph; what only others need is left out
    """
    external_files(path)
    model = onnx.load(path)
    if model.ByteSize() > LARGEST_ONNX:
        raise BackboneError(f"{path} has more than 2 GB of weights; expected less: ONNX's limit")
    _keep_output(model.graph, _chosen(model.graph, output, path))
    _take_float32(model.graph)
    kept = {entry.key: entry.value for entry in model.metadata_props}
    del model.metadata_props[:]
    helper.set_model_props(model, kept | {DECLARED: preprocessing.to_json()})
    with atomic.replacing(target) as scratch:
        onnx.save(model, scratch)


def _chosen(graph: Any, output: str | None, path: Path) -> str:
    names = [value.name for value in graph.output]
    if output is None and len(names) > 1 and "features" not in names:
        raise BackboneError(
            f"{path} has {len(names)} outputs; expected one: name the features' with "
            f"--output-name: {name_some(names)}"
        )
    made = {name for node in graph.node for name in node.output}
    if output is not None and output not in made:
        raise BackboneError(f"{path} has no output {output!r}; expected one of {name_some(names)}")
    return output or ("features" if "features" in names else names[0])


def _keep_output(graph: Any, name: str) -> None:
    """Leave out of a graph what one value does not need."""
    if [value.name for value in graph.output] == [name]:
        return
    needed = {name}
    nodes = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(_read_by(node))
    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    output = known.get(name, onnx.ValueInfoProto(name=name))
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, kept in (("node", nodes[::-1]), ("output", [output]), ("initializer", weights)):
        graph.ClearField(field)
        getattr(graph, field).extend(kept)


def _read_by(node: Any) -> Iterable[str]:
    """Names that a node reads, and those that the graphs inside it read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read_by(inner)


def _take_float32(graph: Any) -> None:
    """Let a network of half precision take images of single precision."""
    for image in graph.input:
        if image.type.tensor_type.elem_type != TensorProto.FLOAT16:
            continue
        half = f"{image.name}/half"
        for node in graph.node:
            node.input[:] = [half if name == image.name else name for name in node.input]
        graph.node.insert(0, helper.make_node("Cast", [image.name], [half], to=TensorProto.FLOAT16))
        image.type.tensor_type.elem_type = TensorProto.FLOAT


def class_scores(path: Path, count: int) -> str | None:
    """Evidence that a network ends in class scores, not in features; None without any.

    Parameters
    ----------
    count : how many numbers it gives
    """
    graph = onnx.load(path, load_external_data=False).graph
    makers = {name: node for node in graph.node for name in node.output}
    fixed = {tensor.name for tensor in graph.initializer}
    last = makers.get(graph.output[0].name)
    soft = False
    while last is not None and last.op_type in SHAPING:
        soft = soft or "Softmax" in last.op_type
        last = makers.get(last.input[0])
    before = None
    if last is not None and last.op_type == "Gemm":
        before = last.input[0]
    elif last is not None and last.op_type == "Add" and fixed.intersection(last.input):
        products = [makers[name] for name in last.input if name in makers]
        before = next((node.input[0] for node in products if node.op_type == "MatMul"), None)
    if before is not None:
        return f"a linear layer gives its {count:,} numbers, of {before!r}"
    return f"it gives {count:,} numbers" if soft or count in IMAGENET else None
