"""A model as an ONNX graph of standard operators: the encoder's operations, then the weights.

The graph compares in float64 and sums float64, as safle does: a sum of safle's weights is exact in
any order (see `safle.model.model`), so it predicts exactly safle's classes. It does not
refuse NaN and infinity; check features before you feed them.

Examples
--------
>>> import tempfile
>>> from safle import SafleClassifier
>>> model = SafleClassifier().fit([[0.1], [0.2], [0.9]], ["low", "low", "high"]).model_
>>> with tempfile.TemporaryDirectory() as folder:
...     export_onnx(model, f"{folder}/model.onnx")
>>> [output.name for output in to_onnx(model).graph.output]
['scores', 'label', 'probabilities']
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import atomic
from safle.basics.memory import readable
from safle.encoders.base import Encoder
from safle.errors import InvalidInput, MissingExtra
from safle.model.model import Model
from safle.model.scores import express_squares
from safle.solver.heads import HEADS

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise MissingExtra("onnx", "safle[onnx]", "exporting to ONNX") from error

__all__ = ["export_onnx", "to_onnx"]

Array = NDArray[Any]
OPSET = 17
IR_VERSION = 8
"""Old enough for any runtime of the last years."""
MAX_BYTES = (1 << 31) - (1 << 20)
"""Protocol buffers end at 2 GB."""
GATHERED = 4_096
"""Weights gathered per sample at a time: experts x classes would fill the memory."""
MAX_ROWS = np.iinfo(np.int16).max
MAX_VALUE = np.iinfo(np.int8).max
MAX_ENTRIES = 64
"""A column of a sparse matrix has at most this many entries; three bytes each."""


def export_onnx(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `to_onnx` to a file, atomically; equal models give equal bytes."""
    atomic.write_bytes(path, to_onnx(model).SerializeToString(deterministic=True))


def to_onnx(model: Model) -> onnx.ModelProto:
    """An ONNX graph of standard operators.

    Input ``features``, float32 [batch, feature_dim]; outputs ``scores``, float64 [batch,
    class_count], ``label``, int64 or string [batch], and ``probabilities``. Its metadata name the
    columns, the classes, the model's digest and the promise of noisy statistics, if any.
    """
    size = model.tables.nbytes + model.dense_weights.nbytes
    size += 0 if model.quadratic is None else 4 * model.quadratic.factors.size
    if size > MAX_BYTES:
        raise InvalidInput(
            f"tables of {readable(size)} do not fit an ONNX file, which ends at 2 GB; use an "
            "encoder with smaller tables"
        )
    graph = _Graph()
    textual = isinstance(model.class_names[0], str)
    scores = _scores(graph, model)
    best = graph.node("ArgMax", scores, axis=1, keepdims=0)
    names = graph.constant(model.class_names, object if textual else np.int64)
    graph.name(scores, "scores")
    graph.name(_probabilities(graph, model, scores), "probabilities")
    graph.name(graph.node("Gather", names, best), "label")
    proto = _proto(graph, model, TensorProto.STRING if textual else TensorProto.INT64)
    metadata = {name: json.dumps(value, ensure_ascii=False) for name, value in _facts(model)}
    helper.set_model_props(proto, metadata | {"safle.digest": model.digest})
    onnx.checker.check_model(proto)
    return proto


def _scores(graph: _Graph, model: Model) -> str:
    """The scores of the input, summed in the model's order."""
    features = graph.cast("features", TensorProto.DOUBLE)
    codes = model.encoder.express(graph, features)
    symbols, dense = codes
    total = graph.constant(model.intercept)
    if symbols is not None:
        firsts = model.encoder.layout.bases[:-1]
        total = graph.plus(total, graph.look_up(symbols, firsts, model.tables))
    if dense is not None:
        total = graph.plus(total, graph.weigh(dense, model.dense_weights))
    if model.quadratic is not None:
        squares = express_squares(graph, dense, model.encoder.layout, model.quadratic)
        total = graph.plus(total, squares)
    return total


def _probabilities(graph: _Graph, model: Model, scores: str) -> str:
    """As `safle.model.scores`, to about the last bit."""
    if HEADS[model.head].takes_priors:
        return graph.node("Softmax", graph.divide(scores, model.temperature or 1.0), axis=1)
    count = len(model.class_names)
    ordered = graph.node("TopK", scores, graph.indices(count), outputs=2, axis=1)
    sums = graph.node("CumSum", ordered, graph.constant(1, np.int64))
    shares = graph.divide(graph.subtract(sums, 1.0), np.arange(1, count + 1))
    threshold = graph.node("ReduceMax", shares, axes=[1], keepdims=1)
    return graph.node("Max", graph.node("Sub", scores, threshold), graph.constant(0.0))


def _proto(graph: _Graph, model: Model, label: int) -> onnx.ModelProto:
    classes = len(model.class_names)
    body = helper.make_graph(
        graph.nodes,
        "safle",
        [_value("features", TensorProto.FLOAT, model.encoder.feature_dim)],
        [
            _value("scores", TensorProto.DOUBLE, classes),
            _value("label", label),
            _value("probabilities", TensorProto.DOUBLE, classes),
        ],
        graph.constants,
    )
    return helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="safle",
    )


def _value(name: str, element_type: int, *sizes: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, ["batch", *sizes])


def _facts(model: Model) -> Iterator[tuple[str, Any]]:
    """Metadata in JSON, by name."""
    yield "safle.classes", model.class_names
    if model.encoder.contract.names:
        yield "safle.columns", _columns(model.encoder)
    if model.promise:
        yield "safle.promise", model.promise


def _columns(encoder: Encoder) -> list[dict[str, Any]]:
    """The columns in the order of the input; a level is given by its place, from 0."""
    schema = encoder.contract.schema
    levels = {} if schema is None else {c.name: c.levels for c in schema.columns}
    return [
        {"name": name} | ({"levels": levels[name]} if levels.get(name) else {})
        for name in encoder.contract.names
    ]


def _with_constant(operator: str) -> Callable[[_Graph, str, Array | float], str]:
    """An operation on a value and a constant."""
    return lambda graph, x, constant: graph.node(operator, x, graph.constant(constant))


def _unary(operator: str) -> Callable[[_Graph, str], str]:
    """An operation on one value."""
    return lambda graph, x: graph.node(operator, x)


class _Graph:
    """The operations of `safle.encoders.operations` as nodes; a value is the name of an output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Append a constant; returns its name."""
        name = f"constant_{len(self.constants)}"
        array = np.array(value, dtype, order="C")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def indices(self, *value: Any) -> str:
        """Places, axes or a shape: int64."""
        return self.constant(value, np.int64)

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node; returns the name of its first output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{at}" for at in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return name

    def cast(self, x: str, element_type: int) -> str:
        return self.node("Cast", x, to=element_type)

    def name(self, value: str, name: str) -> None:
        """Give ``value`` a second name: that of an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    add = _with_constant("Add")
    subtract = _with_constant("Sub")
    multiply = _with_constant("Mul")
    divide = _with_constant("Div")
    floor = _unary("Floor")
    round = _unary("Round")

    def plus(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def gather(self, x: str, columns: Array) -> str:
        return self.node("Gather", x, self.constant(columns, np.int64), axis=1)

    def inside(self, x: str, low: Array, high: Array) -> str:
        above = self.node("Greater", x, self.constant(low))
        below = self.node("LessOrEqual", x, self.constant(high))
        return self.cast(self.node("And", above, below), TensorProto.DOUBLE)

    def levels(self, x: str, thresholds: Array) -> str:
        # By bisection, to 2^steps - 1 thresholds, so that every step halves what is left.
        count, columns = thresholds.shape
        steps = count.bit_length()
        padded = np.full((columns, (1 << steps) - 1), np.inf)
        padded[:, :count] = thresholds.T
        flat = self.constant(padded.ravel())
        first = self.indices(*(np.arange(columns) * padded.shape[1]))
        level = self.indices(*np.zeros(columns))
        for step in reversed(range(steps)):
            half = self.constant(1 << step, np.int64)
            before = self.constant((1 << step) - 1, np.int64)
            place = self.plus(self.plus(level, before), first)
            above = self.node("Greater", x, self.node("Gather", flat, place))
            gain = self.node("Mul", self.cast(above, TensorProto.INT64), half)
            level = self.plus(level, gain)
        return self.cast(level, TensorProto.DOUBLE)

    def compose(self, x: str, places: Array) -> str:
        # A 0 in a shape means the present size: the batch.
        grouped = self.node("Reshape", x, self.indices(0, *places.shape))
        valued = self.multiply(grouped, places)
        return self.node("ReduceSum", valued, self.indices(1), keepdims=0)

    def fill(self, x: str, value: Array | float) -> str:
        return self.node("Where", self.node("IsNaN", x), self.constant(value), x)

    def root(self, x: str) -> str:
        return self.node("Mul", self.node("Sqrt", self.node("Abs", x)), self.node("Sign", x))

    def clip(self, x: str, low: float, high: float) -> str:
        return self.node("Clip", x, self.constant(low), self.constant(high))

    def shorten(self, x: str, most: int) -> str:
        power = self.node("ReduceSum", self.node("Mul", x, x), self.indices(1), keepdims=1)
        length = self.node("Ceil", self.node("Sqrt", power))
        length = self.node("Max", length, self.constant(most))
        share = self.node("Div", self.multiply(self.node("Abs", x), most), length)
        return self.node("Mul", self.floor(share), self.node("Sign", x))

    def times(self, x: str, y: str) -> str:
        return self.node("Mul", x, y)

    def product(self, x: str, matrix: Array) -> str:
        narrow = self.cast(x, TensorProto.FLOAT)
        return self.cast(self.node("MatMul", narrow, self._matrix(matrix)), TensorProto.DOUBLE)

    def _matrix(self, matrix: Array) -> str:
        """A matrix of float32; of few entries per column, the file holds only these."""
        entries = _sparse_entries(matrix)
        if entries is None:
            return self.constant(matrix, np.float32)
        rows, values = entries
        # A runtime computes this once, when it loads the graph.
        zeros = self.node("ConstantOfShape", self.indices(*matrix.shape))
        places = self.cast(self.constant(rows, np.int16), TensorProto.INT64)
        factors = self.cast(self.constant(values, np.int8), TensorProto.FLOAT)
        return self.node("ScatterElements", zeros, places, factors, axis=0)

    def integer_product(self, x: str, matrix: Array) -> str:
        factors = self.cast(self.constant(matrix, np.int16), TensorProto.DOUBLE)
        return self.node("MatMul", x, factors)

    def sum_squares(self, x: str, groups: int, size: int) -> str:
        grouped = self.node("Reshape", self.node("Mul", x, x), self.indices(0, groups, size))
        return self.node("ReduceSum", grouped, self.indices(2), keepdims=0)

    def append(self, x: str, value: float) -> str:
        return self.node("Pad", x, self.indices(0, 0, 0, 1), self.constant(value))

    def join(self, parts: Sequence[str]) -> str:
        return self.node("Concat", *parts, axis=1)

    def look_up(self, symbols: str, firsts: Array, tables: Array) -> str:
        """The sum of a row of ``tables`` for each symbol; an expert's rows begin at its first."""
        places = self.cast(self.add(symbols, firsts), TensorProto.INT64)
        weights = self.constant(tables, np.float32)
        axis = self.indices(1)
        block = max(1, GATHERED // tables.shape[1])
        total = ""
        for start in range(0, len(firsts), block):
            ends = self.indices(start), self.indices(min(len(firsts), start + block))
            part = self.node("Slice", places, *ends, axis)
            wide = self.cast(self.node("Gather", weights, part, axis=0), TensorProto.DOUBLE)
            share = self.node("ReduceSum", wide, axis, keepdims=0)
            total = self.plus(total, share) if total else share
        return total

    def weigh(self, dense: str, weights: Array) -> str:
        """The product with weights per code unit, which float32 holds exactly."""
        wide = self.cast(self.constant(weights, np.float32), TensorProto.DOUBLE)
        return self.node("MatMul", dense, wide)


def _sparse_entries(matrix: Array) -> tuple[Array, Array] | None:
    """Rows, int16, and values, int8, of each column's entries; None if many, or no small integers.

    A column of fewer than the most has rows with the value 0 as well; none occurs twice.
    """
    entries = int((matrix != 0).sum(axis=0).max(initial=0))
    small = len(matrix) <= MAX_ROWS and np.abs(matrix).max(initial=0) <= MAX_VALUE
    if not small or not 0 < entries <= MAX_ENTRIES or not np.array_equal(matrix, np.rint(matrix)):
        return None
    rows = np.argsort(matrix == 0, axis=0, kind="stable")[:entries]
    values = np.take_along_axis(matrix, rows, axis=0)
    return rows.astype(np.int16), values.astype(np.int8)
