"""A model as an ONNX graph of standard operators: the encoder's own words, then the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from safle.basics.memory import readable
from safle.errors import InvalidInput
from safle.model import Model
from safle.model.export import few_entries

Array = NDArray[Any]
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

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node; gives the name of its first output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{at}" for at in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return name

    def name(self, value: str, name: str) -> None:
        """Call ``value`` by an output's name as well."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))


class OnnxOperations:
    """The vocabulary of `safle.encoders.operations`, as nodes; values are their names."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def _number(self, value: Array | float) -> str:
        return self.graph.constant(value, np.float64)

    def gather(self, x: str, columns: Array) -> str:
        return self.graph.add("Gather", x, self.graph.constant(columns, np.int64), axis=1)

    def inside(self, x: str, low: Array, high: Array) -> str:
        above = self.graph.add("Greater", x, self._number(low))
        below = self.graph.add("LessOrEqual", x, self._number(high))
        return self.graph.add("Cast", self.graph.add("And", above, below), to=TensorProto.DOUBLE)

    def levels(self, x: str, thresholds: Array) -> str:
        # By bisection, to 2^steps - 1 thresholds, so that every step halves what is left.
        graph, (count, columns) = self.graph, thresholds.shape
        steps = count.bit_length()
        padded = np.full((columns, (1 << steps) - 1), np.inf)
        padded[:, :count] = thresholds.T
        flat = graph.constant(padded.ravel(), np.float64)
        first = graph.constant(np.arange(columns) * padded.shape[1], np.int64)
        level = graph.constant(np.zeros(columns), np.int64)
        for step in reversed(range(steps)):
            half = graph.constant(1 << step, np.int64)
            before = graph.constant((1 << step) - 1, np.int64)
            place = graph.add("Add", graph.add("Add", level, before), first)
            above = graph.add("Greater", x, graph.add("Gather", flat, place))
            gain = graph.add("Mul", graph.add("Cast", above, to=TensorProto.INT64), half)
            level = graph.add("Add", level, gain)
        return graph.add("Cast", level, to=TensorProto.DOUBLE)

    def compose(self, x: str, places: Array) -> str:
        # A 0 in a shape stands for the size there already is: the batch.
        shape = self.graph.constant([0, *places.shape], np.int64)
        grouped = self.graph.add("Reshape", x, shape)
        valued = self.graph.add("Mul", grouped, self._number(places))
        axis = self.graph.constant([1], np.int64)
        return self.graph.add("ReduceSum", valued, axis, keepdims=0)

    def fill(self, x: str, value: Array | float) -> str:
        return self.graph.add("Where", self.graph.add("IsNaN", x), self._number(value), x)

    def root(self, x: str) -> str:
        root = self.graph.add("Sqrt", self.graph.add("Abs", x))
        return self.graph.add("Mul", root, self.graph.add("Sign", x))

    def add(self, x: str, constant: Array | float) -> str:
        return self.graph.add("Add", x, self._number(constant))

    def subtract(self, x: str, constant: Array | float) -> str:
        return self.graph.add("Sub", x, self._number(constant))

    def multiply(self, x: str, constant: Array | float) -> str:
        return self.graph.add("Mul", x, self._number(constant))

    def divide(self, x: str, constant: Array | float) -> str:
        return self.graph.add("Div", x, self._number(constant))

    def floor(self, x: str) -> str:
        return self.graph.add("Floor", x)

    def round(self, x: str) -> str:
        return self.graph.add("Round", x)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.graph.add("Clip", x, self._number(low), self._number(high))

    def shorten(self, x: str, most: int) -> str:
        graph, columns = self.graph, self.graph.constant([1], np.int64)
        power = graph.add("ReduceSum", graph.add("Mul", x, x), columns, keepdims=1)
        length = graph.add("Max", graph.add("Ceil", graph.add("Sqrt", power)), self._number(most))
        share = graph.add("Div", self.multiply(graph.add("Abs", x), most), length)
        return graph.add("Mul", graph.add("Floor", share), graph.add("Sign", x))

    def product(self, x: str, matrix: Array) -> str:
        narrow = self.graph.add("Cast", x, to=TensorProto.FLOAT)
        found = few_entries(matrix)
        if found is None:
            sums = self.graph.add("MatMul", narrow, self.graph.constant(matrix, np.float32))
        else:
            terms = [self._term(narrow, *term) for term in zip(*found, strict=True)]
            sums = self.graph.add("Sum", *terms)
        return self.graph.add("Cast", sums, to=TensorProto.DOUBLE)

    def _term(self, x: str, rows: Array, values: Array) -> str:
        """The columns of ``x`` that ``rows`` names, times ``values``."""
        places = self.graph.add("Cast", self.graph.constant(rows, np.int16), to=TensorProto.INT64)
        factors = self.graph.add("Cast", self.graph.constant(values, np.int8), to=TensorProto.FLOAT)
        return self.graph.add("Mul", self.graph.add("Gather", x, places, axis=1), factors)

    def integer_product(self, x: str, matrix: Array) -> str:
        factors = self.graph.constant(matrix, np.int16)
        return self.graph.add("MatMul", x, self.graph.add("Cast", factors, to=TensorProto.DOUBLE))

    def sum_squares(self, x: str, groups: int, size: int) -> str:
        shape = self.graph.constant([0, groups, size], np.int64)
        grouped = self.graph.add("Reshape", self.graph.add("Mul", x, x), shape)
        return self.graph.add("ReduceSum", grouped, self.graph.constant([2], np.int64), keepdims=0)

    def append(self, x: str, value: float) -> str:
        last = self.graph.constant([0, 0, 0, 1], np.int64)
        return self.graph.add("Pad", x, last, self._number(value))

    def join(self, parts: Sequence[str]) -> str:
        return self.graph.add("Concat", *parts, axis=1)


def _look_up(graph: Graph, symbols: str, model: Model, tables: Array) -> str:
    """``sum_j W_j[idx_j]``, float64, [batch, class_count]."""
    layout, axis = model.encoder.layout, graph.constant([1], np.int64)
    symbols = graph.add("Cast", symbols, to=TensorProto.INT64)
    rows = graph.add("Add", symbols, graph.constant(layout.bases[:-1], np.int64))
    weights = graph.constant(tables, np.float32)
    block, total = max(1, GATHERED // len(model.class_names)), ""
    for start in range(0, layout.experts, block):
        stop = min(layout.experts, start + block)
        ends = [graph.constant([end], np.int64) for end in (start, stop)]
        gathered = graph.add("Gather", weights, graph.add("Slice", rows, *ends, axis), axis=0)
        wide = graph.add("Cast", gathered, to=TensorProto.DOUBLE)
        share = graph.add("ReduceSum", wide, axis, keepdims=0)
        total = graph.add("Add", total, share) if total else share
    return total


def build(model: Model, metadata: dict[str, str]) -> onnx.ModelProto:
    """The graph of a model, checked."""
    tables = model.tables
    size = tables.nbytes + model.dense_weights.nbytes
    size += 4 * model.squares.head.factors.size if model.squares is not None else 0
    if size > MOST_BYTES:
        raise InvalidInput(
            f"tables of {readable(size)} do not fit an ONNX file, which ends at 2 GB; "
            "export to torch, or use an encoder with smaller tables"
        )
    graph = Graph()
    features = graph.add("Cast", "features", to=TensorProto.DOUBLE)
    codes = model.encoder.express(OnnxOperations(graph), features)
    shares = [graph.constant(model.intercept, np.float64)]
    if codes.symbols is not None:
        shares.append(_look_up(graph, codes.symbols, model, tables))
    if codes.dense is not None:
        # A float32 over a power of two is a float32.
        weights = graph.constant(model.dense_weights, np.float32)
        wide = graph.add("Cast", weights, to=TensorProto.DOUBLE)
        shares.append(graph.add("MatMul", codes.dense, wide))
    scores = graph.add("Sum", *shares)
    if model.squares is not None:
        squares = model.squares.express(OnnxOperations(graph), codes.dense)
        scores = graph.add("Add", scores, squares)
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    names = _class_names(graph, model)
    graph.name(scores, "scores")
    graph.name(_probabilities(graph, model, scores), "probabilities")
    graph.name(graph.add("Gather", names, best), "label")
    proto = _proto(graph, model)
    helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto)
    return proto


def _probabilities(graph: Graph, model: Model, scores: str) -> str:
    """As `safle.model.probabilities`, to about the last bit."""
    if model.head != "least-squares":
        temperature = graph.constant(model.temperature or 1.0, np.float64)
        return graph.add("Softmax", graph.add("Div", scores, temperature), axis=1)
    count = len(model.class_names)
    ordered = graph.add("TopK", scores, graph.constant([count], np.int64), outputs=2, axis=1)
    sums = graph.add("CumSum", ordered, graph.constant(1, np.int64))
    beyond = graph.add("Sub", sums, graph.constant(1.0, np.float64))
    shares = graph.add("Div", beyond, graph.constant(np.arange(1, count + 1), np.float64))
    threshold = graph.add("ReduceMax", shares, axes=[1], keepdims=1)
    nearest = graph.add("Sub", scores, threshold)
    return graph.add("Max", nearest, graph.constant(0.0, np.float64))


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
            _value("probabilities", TensorProto.DOUBLE, len(model.class_names)),
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
