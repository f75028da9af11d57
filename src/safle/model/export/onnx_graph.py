"""A model as an ONNX graph of standard operators.

Every encoder kind has a function (graph, features, encoder, weights) -> scores, where
features and scores name float64 values, [batch, feature_dim] and [batch, class_count].
The whole is the sum of the shares and the intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from safle._internal.memory import readable
from safle.encoders import (
    EmbeddingEncoder,
    Encoder,
    HybridEncoder,
    LinearEncoder,
    RandomFeatureEncoder,
)
from safle.encoders.codes import DENSE_LIMIT
from safle.encoders.kernels.encode import LEVEL
from safle.errors import InvalidInput
from safle.model import Model
from safle.model.export.plan import Digits, Weights, exporter_of, intervals

OPSET, IR_VERSION = 17, 8
"""Old enough for any runtime of the last years."""
MOST_BYTES = (1 << 31) - (1 << 20)
"""Protocol buffers end at 2 GB."""
GATHERED = 4_096
"""Weights gathered per sample at a time: experts x classes would fill the memory."""


class Graph:
    """Nodes and constants under construction; values are known by their names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any, dtype: Any) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.array(value, dtype, order="C")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; gives the name of its output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def name(self, value: str, name: str) -> None:
        """Call ``value`` by an output's name as well."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))


def _bits(graph: Graph, features: str, encoder: EmbeddingEncoder, digits: Digits) -> str:
    """``low_i < x_f(i) <= high_i`` as int64, [batch, G * experts]."""
    low, high = (graph.constant(border, np.float64) for border in intervals(encoder, digits))
    values = graph.add("Gather", features, graph.constant(digits.feature, np.int64), axis=1)
    inside = graph.add(
        "And", graph.add("Greater", values, low), graph.add("LessOrEqual", values, high)
    )
    return graph.add("Cast", inside, to=TensorProto.INT64)


def _levels(graph: Graph, features: str, encoder: EmbeddingEncoder, digits: Digits) -> str:
    """How many thresholds lie below x_f(i), by bisection; int64, [batch, G * experts]."""
    steps = len(encoder.thresholds).bit_length()
    # To 2^steps - 1 thresholds, so that every step halves what is left.
    padded = np.full((encoder.feature_dim, (1 << steps) - 1), np.inf)
    padded[:, : len(encoder.thresholds)] = encoder.thresholds.T
    flat = graph.constant(padded.ravel(), np.float64)
    first = graph.constant(np.arange(encoder.feature_dim) * padded.shape[1], np.int64)
    level = graph.constant(np.zeros(encoder.feature_dim), np.int64)
    for step in reversed(range(steps)):
        half = graph.constant(1 << step, np.int64)
        before = graph.constant((1 << step) - 1, np.int64)
        place = graph.add("Add", graph.add("Add", level, before), first)
        above = graph.add("Greater", features, graph.add("Gather", flat, place))
        gain = graph.add("Mul", graph.add("Cast", above, to=TensorProto.INT64), half)
        level = graph.add("Add", level, gain)
    return graph.add("Gather", level, graph.constant(digits.feature, np.int64), axis=1)


def _tables(graph: Graph, features: str, encoder: EmbeddingEncoder, weights: Weights) -> str:
    """``sum_j W_j[idx_j]`` with ``idx_j = sum_i digit_ji k^i``."""
    digits = Digits.of(encoder)
    made = _levels if encoder.bucketing.rule == LEVEL else _bits
    group, experts = digits.places.shape
    # A 0 in a shape stands for the size there already is: the batch.
    shape = graph.constant([0, group, experts], np.int64)
    grouped = graph.add("Reshape", made(graph, features, encoder, digits), shape)
    valued = graph.add("Mul", grouped, graph.constant(digits.places, np.int64))
    axis = graph.constant([1], np.int64)
    symbols = graph.add("ReduceSum", valued, axis, keepdims=0)
    rows = graph.add("Add", symbols, graph.constant(encoder.layout.bases[:-1], np.int64))
    tables = graph.constant(weights.tables, np.float32)
    block, total = max(1, GATHERED // weights.tables.shape[1]), ""
    for start in range(0, experts, block):
        ends = [graph.constant([end], np.int64) for end in (start, min(experts, start + block))]
        gathered = graph.add("Gather", tables, graph.add("Slice", rows, *ends, axis), axis=0)
        wide = graph.add("Cast", gathered, to=TensorProto.DOUBLE)
        share = graph.add("ReduceSum", wide, axis, keepdims=0)
        total = graph.add("Add", total, share) if total else share
    return total


def _fixed_point(graph: Graph, features: str, encoder: LinearEncoder) -> str:
    """``code_f = round(2^b (t(x_f) - mean_f) / deviation_f)``, float64."""
    if encoder.transform == "square-root":
        root = graph.add("Sqrt", graph.add("Abs", features))
        features = graph.add("Mul", root, graph.add("Sign", features))
    scale = graph.constant(1 << encoder.fraction_bits, np.float64)
    centred = graph.add("Sub", features, graph.constant(encoder.mean, np.float64))
    values = graph.add("Div", centred, graph.constant(encoder.deviation, np.float64))
    rounded = graph.add("Round", graph.add("Mul", values, scale))
    limits = [graph.constant(limit, np.float64) for limit in (-DENSE_LIMIT, DENSE_LIMIT)]
    return graph.add("Clip", rounded, *limits)


def _linear(graph: Graph, features: str, encoder: LinearEncoder, weights: Weights) -> str:
    """``code W`` of the fixed-point features and a constant."""
    codes = _fixed_point(graph, features, encoder)
    return _times(graph, codes, 1 << encoder.fraction_bits, weights)


def _times(graph: Graph, codes: str, constant: int, weights: Weights) -> str:
    """``[codes, constant] W``."""
    last, value = graph.constant([0, 0, 0, 1], np.int64), graph.constant(constant, np.float64)
    padded = graph.add("Pad", codes, last, value)
    return graph.add("MatMul", padded, graph.constant(weights.dense, np.float64))


def _random(graph: Graph, features: str, encoder: RandomFeatureEncoder, weights: Weights) -> str:
    """``code W`` with ``code_j = min(most, floor(max(0, sum_f s_fj c_f) / 2^shift + 1/2))``."""
    # Integers below 2**24: float32 products are exact.
    fixed = graph.add("Cast", _fixed_point(graph, features, encoder.linear), to=TensorProto.FLOAT)
    sums = graph.add("MatMul", fixed, graph.constant(encoder.signs, np.float32))
    sums = graph.add("Cast", sums, to=TensorProto.DOUBLE)
    steps = graph.add("Div", sums, graph.constant(1 << encoder.shift, np.float64))
    rounded = graph.add("Floor", graph.add("Add", steps, graph.constant(0.5, np.float64)))
    limits = [graph.constant(limit, np.float64) for limit in (0, (1 << encoder.bits) - 1)]
    return _times(graph, graph.add("Clip", rounded, *limits), encoder.scale, weights)


def _hybrid(graph: Graph, features: str, encoder: HybridEncoder, weights: Weights) -> str:
    """Several encoders side by side."""
    own = weights.split([part.layout for part in encoder.parts])
    shares = [
        _share(graph, features, part, each) for part, each in zip(encoder.parts, own, strict=True)
    ]
    return graph.add("Sum", *shares)


EXPORTERS: dict[str, Callable[[Graph, str, Any, Weights], str]] = {
    EmbeddingEncoder.kind: _tables,
    LinearEncoder.kind: _linear,
    RandomFeatureEncoder.kind: _random,
    HybridEncoder.kind: _hybrid,
}


def _share(graph: Graph, features: str, encoder: Encoder, weights: Weights) -> str:
    return exporter_of(encoder, EXPORTERS, target="ONNX")(graph, features, encoder, weights)


def build(model: Model, metadata: dict[str, str]) -> onnx.ModelProto:
    """The graph of a model, checked."""
    weights = Weights.of(model)
    size = weights.tables.nbytes + weights.dense.nbytes
    if size > MOST_BYTES:
        raise InvalidInput(
            f"tables of {readable(size)} do not fit an ONNX file, which ends at 2 GB; "
            "export to torch, or use an encoder with smaller tables"
        )
    graph = Graph()
    features = graph.add("Cast", "features", to=TensorProto.DOUBLE)
    share = _share(graph, features, model.encoder, weights)
    scores = graph.add("Add", share, graph.constant(model.intercept, np.float64))
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    names = _class_names(graph, model)
    graph.name(scores, "scores")
    graph.name(graph.add("Gather", names, best), "label")
    proto = _proto(graph, model)
    helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto)
    return proto


def _class_names(graph: Graph, model: Model) -> str:
    textual = isinstance(model.class_names[0], str)
    return graph.constant(model.class_names, object if textual else np.int64)


def _proto(graph: Graph, model: Model) -> onnx.ModelProto:
    textual = isinstance(model.class_names[0], str)
    label = TensorProto.STRING if textual else TensorProto.INT64
    body = helper.make_graph(
        graph.nodes,
        "safle",
        [_value("features", TensorProto.FLOAT, model.encoder.feature_dim)],
        [
            _value("scores", TensorProto.DOUBLE, len(model.class_names)),
            _value("label", label),
        ],
        graph.constants,
    )
    return helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="safle",
    )


def _value(name: str, kind: int, *sizes: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["batch", *sizes])
