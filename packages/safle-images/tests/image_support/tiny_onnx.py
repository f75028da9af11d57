"""A backbone that needs no weights: made by `conftest.tiny_onnx`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

TINY_PREPROCESSING = {
    "resize": 36,
    "crop": 32,
    "interpolation": "bilinear",
    "mean": [120, 110, 100],
    "deviation": [60, 50, 40],
}


def save_tiny_onnx(
    path: Path,
    *,
    declared: bool = True,
    batch: int | str = "batch",
    side: int | str = 32,
    mixed: bool = False,
    feature_dim: int = 6,
) -> Path:
    import onnx

    helper, numbers = onnx.helper, np.random.default_rng(5)
    kernel = numbers.standard_normal((feature_dim, 3, 8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["c"], strides=[8, 8]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["own" if mixed else "features"]),
    ]
    if mixed:
        nodes.append(helper.make_node("ReduceMean", ["own"], ["all"], axes=[0], keepdims=1))
        nodes.append(helper.make_node("Add", ["own", "all"], ["features"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "tiny",
        [value("images", onnx.TensorProto.FLOAT, [batch, 3, side, side])],
        [value("features", onnx.TensorProto.FLOAT, [batch, feature_dim])],
        [onnx.numpy_helper.from_array(kernel, "kernel")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if declared:
        entry = model.metadata_props.add()
        entry.key, entry.value = "safle.preprocessing", json.dumps(TINY_PREPROCESSING)
    onnx.save(model, path)
    return path
