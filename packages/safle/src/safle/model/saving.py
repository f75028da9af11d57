"""A fitted `SafleClassifier` <-> bytes: its model, what it has counted, and its parameters.

One safetensors file: the model's bytes, the statistics' bytes, and JSON. Nothing in it is executed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.tensors import (
    read_header,
    read_tensors,
    refusing_malformed,
    write_tensors,
)
from safle.encoders import Encoder
from safle.encoders.features import as_class_names, as_labels
from safle.encoders.schema import Schema
from safle.errors import WireError
from safle.model.model import Model
from safle.wire import decode_statistics, encode_statistics

if TYPE_CHECKING:
    from safle.model.estimator import SafleClassifier

FORMAT = "safle-classifier-1"
MAX_FILE_BYTES = 1 << 33
_TYPES = ("bool", "object", "str", *(f"{s}{b}" for s in ("int", "uint") for b in (8, 16, 32, 64)))
_TYPES += ("float16", "float32", "float64")
"""What labels may be an array of."""


def to_bytes(classifier: SafleClassifier) -> bytes:
    """A fitted classifier as a safetensors file."""
    params = classifier.get_params(deep=False)
    # A given encoder is the model's own.
    params["encoder"] = None if isinstance(params["encoder"], Encoder) else params["encoder"]
    params["settings"] = None if params["settings"] is None else dict(params["settings"])
    params["schema"] = None if params["schema"] is None else params["schema"].to_json()
    classes = classifier.classes_
    header = {
        "format": FORMAT,
        "params": params,
        "classes": as_labels(classes, len(classes)).tolist(),
        "type": "str" if classes.dtype.kind == "U" else classes.dtype.name,
        "declared": classifier._declared,
        "columns": getattr(classifier, "feature_names_in_", np.empty(0)).tolist(),
    }
    parts = {"model": classifier.model_.to_bytes()}
    parts["statistics"] = encode_statistics(classifier.statistics_)
    arrays = {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
    return write_tensors(json.dumps(header, sort_keys=True), arrays)


def from_bytes(data: bytes, kind: type[SafleClassifier]) -> SafleClassifier:
    """The inverse of `to_bytes`; `WireError` for anything else."""
    text, arrays = read_tensors(data)
    with refusing_malformed("classifier"):
        header = read_header(text, FORMAT, "a safle classifier")
        model = Model.from_bytes(arrays["model"].tobytes())
        classifier = kind(**header["params"])
        if classifier.schema is not None:
            classifier.schema = Schema.from_json(classifier.schema)
        classifier.encoder = classifier.encoder or model.encoder
        classes = _restore_classes(header["classes"], header["type"])
        classifier._start(model.encoder, classes, declared=bool(header["declared"]))
        classifier.n_features_in_ = model.encoder.feature_dim
        if header["columns"]:
            classifier.feature_names_in_ = np.array(header["columns"], object)
        statistics = decode_statistics(arrays["statistics"].tobytes(), space=model.encoder.space)
        if statistics.class_names != model.class_names:
            raise WireError("the model is not one of the statistics: they name other classes")
        if not {*model.class_names} <= {*header["classes"]}:
            raise WireError("the classes are not those of the model")
        classifier.statistics_, classifier.model_ = statistics, model
    return classifier


def _restore_classes(names: list[Any], kind: str) -> NDArray[Any]:
    if kind not in _TYPES:
        raise WireError(f"labels of type {kind!r}; expected one of {', '.join(_TYPES)}")
    ordered = as_class_names(names)
    return np.array(ordered) if kind == "str" else np.array(ordered).astype(kind)
