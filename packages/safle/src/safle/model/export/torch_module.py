"""A model as a torch module: the encoder's own words in torch, then `nn.EmbeddingBag`.

The module is a `torch.fx` graph: plain operations on buffers, which scripts and exports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn

from safle.model import Model
from safle.model.export import express_scores, few_entries

Array = NDArray[Any]
Value = Any
"""An `fx.Proxy`: what is done with it is not computed but noted down."""


class TorchOperations:
    """The vocabulary of `safle.encoders.operations`, as nodes of a graph."""

    def __init__(self) -> None:
        self.root_module, self.graph = nn.Module(), fx.Graph()
        self.tracer = fx.proxy.GraphAppendingTracer(self.graph)

    def input(self, name: str) -> Value:
        return fx.Proxy(self.graph.placeholder(name), self.tracer)

    def constant(self, array: Array | float, dtype: Any = np.float64) -> Value:
        """A buffer: a part of the module's state."""
        name = f"constant_{len([*self.root_module.buffers()])}"
        # A copy: a module may be changed, the encoder and the model may not.
        tensor = torch.from_numpy(np.array(array, dtype, order="C"))
        self.root_module.register_buffer(name, tensor)
        return fx.Proxy(self.graph.get_attr(name), self.tracer)

    def look_up(self, symbols: Value, firsts: Array, tables: Array) -> Value:
        """The sum of a row of ``tables`` for each symbol; an expert's rows begin at its first."""
        weights = torch.from_numpy(np.array(tables, np.float64, order="C"))
        self.root_module.tables = nn.EmbeddingBag.from_pretrained(weights, mode="sum")
        places = self.add(symbols, firsts).to(torch.int64)
        return fx.Proxy(self.graph.call_module("tables", (places.node,)), self.tracer)

    def weigh(self, dense: Value, weights: Array) -> Value:
        """The product with weights that float32 holds: one of them over a power of two is one."""
        return dense @ self.constant(weights, np.float32).to(torch.float64)

    def plus(self, x: Value, y: Value) -> Value:
        return x + y

    def gather(self, x: Value, columns: Array) -> Value:
        return x.index_select(1, self.constant(columns, np.int64))

    def inside(self, x: Value, low: Array, high: Array) -> Value:
        return ((x > self.constant(low)) & (x <= self.constant(high))).to(torch.float64)

    def levels(self, x: Value, thresholds: Array) -> Value:
        found = torch.searchsorted(self.constant(thresholds.T), x.t().contiguous())
        return found.t().to(torch.float64)

    def compose(self, x: Value, places: Array) -> Value:
        return (x.unflatten(1, places.shape) * self.constant(places)).sum(1)

    def fill(self, x: Value, value: Array | float) -> Value:
        return torch.where(x.isnan(), self.constant(value), x)

    def root(self, x: Value) -> Value:
        return x.abs().sqrt() * x.sign()

    def add(self, x: Value, constant: Array | float) -> Value:
        return x + self.constant(constant)

    def subtract(self, x: Value, constant: Array | float) -> Value:
        return x - self.constant(constant)

    def multiply(self, x: Value, constant: Array | float) -> Value:
        return x * self.constant(constant)

    def divide(self, x: Value, constant: Array | float) -> Value:
        return x / self.constant(constant)

    def floor(self, x: Value) -> Value:
        return x.floor()

    def round(self, x: Value) -> Value:
        return x.round()

    def clip(self, x: Value, low: float, high: float) -> Value:
        return x.clamp(float(low), float(high))

    def shorten(self, x: Value, most: int) -> Value:
        length = (x * x).sum(1, keepdim=True).sqrt().ceil().clamp(min=float(most))
        return (self.multiply(x, most) / length).trunc()

    def product(self, x: Value, matrix: Array) -> Value:
        narrow, entries = x.to(torch.float32), few_entries(matrix)
        if not entries:
            return (narrow @ self.constant(matrix, np.float32)).to(torch.float64)
        total: Value = 0.0
        for rows, values in entries:
            places = self.constant(rows, np.int16).to(torch.int64)
            total = total + narrow.index_select(1, places) * self.constant(values, np.int8)
        return total.to(torch.float64)

    def integer_product(self, x: Value, matrix: Array) -> Value:
        return x @ self.constant(matrix, np.int16).to(torch.float64)

    def sum_squares(self, x: Value, groups: int, size: int) -> Value:
        return (x * x).unflatten(1, (groups, size)).sum(2)

    def append(self, x: Value, value: float) -> Value:
        return nn.functional.pad(x, (0, 1), value=float(value))

    def join(self, parts: Sequence[Value]) -> Value:
        return torch.cat([*parts], 1)


def build(model: Model) -> nn.Module:
    """The module of a model, frozen, in evaluation mode; ``class_names`` orders its scores."""
    ops = TorchOperations()
    # float64 holds every float32: comparisons with float64 thresholds are exact.
    total = express_scores(model, ops, ops.input("features").to(torch.float64))
    ops.graph.output(total.node)
    module = fx.GraphModule(ops.root_module, ops.graph)
    module.class_names = model.class_names
    return module.eval()


def trace(
    module: nn.Module, feature_dim: int, file: IO[bytes], extra_files: dict[str, str]
) -> None:
    """Write ``module`` as a ``.pt2`` program for any number of float32 samples."""
    # Two samples, because torch takes sizes 0 and 1 of an example for constants.
    example = torch.zeros((2, feature_dim), dtype=torch.float32)
    batch = torch.export.Dim("batch", min=0)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    # The example would be the file's only pickle, and traces name this machine's folders.
    program.example_inputs = None
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, file, extra_files=extra_files)
