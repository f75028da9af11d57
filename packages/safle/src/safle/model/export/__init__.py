"""A model for other runtimes: a torch module, a ``.pt2`` file, an ONNX graph.

All of them compare in float64 and sum float64, as safle does: a sum of safle's weights is
exact in any order (see `safle.model.model`), so they give safle's own classes, not nearly so.
They do not refuse NaN and infinity; check features before you feed them.

Examples
--------
>>> import tempfile, torch
>>> from safle import SafleClassifier
>>> model = SafleClassifier().fit([[0.1], [0.2], [0.9]], ["low", "low", "high"]).model_
>>> to_torch(model)(torch.tensor([[0.95]])).argmax().item()
0
>>> with tempfile.TemporaryDirectory() as folder:
...     export_onnx(model, f"{folder}/model.onnx")
...     export_torch(model, f"{folder}/model.pt2")
...     program = torch.export.load(f"{folder}/model.pt2").module()
>>> program(torch.tensor([[0.95], [0.05]])).shape
torch.Size([2, 2])
>>> [output.name for output in to_onnx(model).graph.output]
['scores', 'label', 'probabilities']
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import atomic
from safle.encoders import Encoder
from safle.errors import MissingExtra
from safle.model import Model

if TYPE_CHECKING:
    import onnx
    import torch

__all__ = ["CLASSES_FILE", "PRIVACY_FILE", "export_onnx", "export_torch", "to_onnx", "to_torch"]

CLASSES_FILE = "classes.json"
"""Extra file of a ``.pt2``: the class names, in the order of the scores."""
PRIVACY_FILE = "privacy.json"
"""Extra file of a ``.pt2`` made of noisy sums: epsilon, delta and the rest of what was promised."""
MOST_ROWS, MOST_VALUE = np.iinfo(np.int16).max, np.iinfo(np.int8).max
MOST_ENTRIES = 64
"""Most entries of a column: each is a step of the exported graph."""


def to_torch(model: Model) -> torch.nn.Module:
    """A frozen torch module, features (samples, feature_dim) -> scores.

    Features may be float32 or float64; scores are float64, (samples, class_count), in the
    order of the module's ``class_names``. It scripts, traces, exports, and its
    ``state_dict`` is all it knows. Do not cast it to another type: that moves thresholds.
    """
    try:
        from safle.model.export.torch_module import build
    except ImportError as error:
        raise MissingExtra("torch", "safle[torch]", "exporting to torch") from error
    return build(model)


def export_torch(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `to_torch` as a ``.pt2`` file that torch loads without safle.

    It is what ``torch.export.save`` writes: a zip archive of JSON and raw arrays, without
    pickles. Its program takes float32 features of any number of samples. Beside it lie
    `CLASSES_FILE` and, where the model was made of noisy sums, `PRIVACY_FILE`.
    """
    module = to_torch(model)
    from safle.model.export.torch_module import trace

    with atomic.replacing(path) as scratch, scratch.open("wb") as file:
        extra = {CLASSES_FILE: _classes(model), **_privacy(model, PRIVACY_FILE)}
        trace(module, model.encoder.feature_dim, file, extra)


def to_onnx(model: Model) -> onnx.ModelProto:
    """An ONNX graph of standard operators.

    Input ``features``, float32 [batch, feature_dim]; outputs ``scores``, float64 [batch,
    class_count], ``label``, int64 or string [batch], and ``probabilities``. Its metadata name the
    columns, the classes, the model's digest and, where the model was made of noisy sums, what was
    promised.
    """
    try:
        from safle.model.export.onnx_graph import build
    except ImportError as error:
        raise MissingExtra("onnx", "safle[onnx]", "exporting to ONNX") from error
    metadata = {"safle.classes": _classes(model), "safle.digest": model.digest}
    if model.encoder.feature_names:
        metadata["safle.columns"] = json.dumps(_columns(model.encoder), ensure_ascii=False)
    return build(model, metadata | _privacy(model, "safle.privacy"))


def export_onnx(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `to_onnx` to a file, atomically; equal models give equal bytes."""
    atomic.write_bytes(path, to_onnx(model).SerializeToString(deterministic=True))


def _classes(model: Model) -> str:
    return json.dumps(list(model.class_names), ensure_ascii=False)


def _columns(encoder: Encoder) -> list[dict[str, Any]]:
    """The columns in the order of the input; a level is given by its place, from 0."""
    levels = {} if encoder.schema is None else {c.name: c.levels for c in encoder.schema.columns}
    return [
        {"name": name} | ({"levels": list(levels[name])} if levels.get(name) else {})
        for name in encoder.feature_names
    ]


def _privacy(model: Model, name: str) -> dict[str, str]:
    """Epsilon, delta and their kin under a name, if there is a promise to keep."""
    return {} if model.privacy is None else {name: json.dumps(model.privacy.to_json())}


def express_scores(model: Model, operations: Any, features: Any) -> Any:
    """The scores of float64 features, in the words of an export; summed in the model's order."""
    codes = model.encoder.express(operations, features)
    total = operations.constant(model.intercept)
    if codes.symbols is not None:
        firsts = model.encoder.layout.bases[:-1]
        total = operations.plus(total, operations.look_up(codes.symbols, firsts, model.tables))
    if codes.dense is not None:
        total = operations.plus(total, operations.weigh(codes.dense, model.dense_weights))
    if model.squares is not None:
        total = operations.plus(total, model.squares.express(operations, codes.dense))
    return total


def few_entries(matrix: NDArray[Any]) -> list[tuple[NDArray[np.int16], NDArray[np.int8]]]:
    """Rows and values of a matrix's entries; none where they are many, or not small integers.

    The matrix is the sum, over what is returned, of ``values[j]`` at ``[rows[j], j]``.
    """
    entries = int((matrix != 0).sum(axis=0).max(initial=0))
    small = len(matrix) <= MOST_ROWS and np.abs(matrix).max(initial=0) <= MOST_VALUE
    if not small or not 0 < entries <= MOST_ENTRIES or not np.array_equal(matrix, np.rint(matrix)):
        return []
    rows = np.argsort(matrix == 0, axis=0, kind="stable")[:entries]
    values = np.take_along_axis(matrix, rows, axis=0)
    return [*zip(rows.astype(np.int16), values.astype(np.int8), strict=True)]
