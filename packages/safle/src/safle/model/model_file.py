"""A model's file: a JSON header, the encoder's arrays and the weights. Reading checks them all.

The file is described in docs/wire-format.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.tensors import (
    Arrays,
    decode_tensors,
    encode_tensors,
    read_header,
    refusing_malformed,
)
from safle.encoders.base import Encoder, encoder_header, restore_encoder
from safle.errors import WireError
from safle.model.scores import MAX_BITS, round_to_grid
from safle.solver.heads import HEADS, FittedHead
from safle.solver.heads.quadratic import Quadratic
from safle.solver.solution import Origin
from safle.tables.checks import ClassName, as_class_names, is_digest

if TYPE_CHECKING:
    from safle.model.model import Model

FORMAT = "safle-model-6"
MAX_FILE_BYTES = 1 << 32
MAX_PROMISE = 200
_ENCODER_PREFIX = "encoder."
"""Prefix of the names of the encoder's arrays."""


def write_model(model: Model) -> bytes:
    """The model as a safetensors file; equal models give equal bytes."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "encoder": encoder_header(model.encoder),
        "classes": list(model.class_names),
        "head": model.head,
        "ridge": float(model.ridge).hex(),
        "sum": model.sum_digest,
    }
    if model.promise:
        header["promise"] = model.promise
    if model.temperature is not None:
        header["temperature"] = model.temperature.hex()
    arrays: Arrays = {f"{_ENCODER_PREFIX}{name}": a for name, a in model.encoder.arrays().items()}
    arrays |= {"codes": model.codes, "weights": model.weights, "intercept": model.intercept}
    if model.quadratic is not None:
        arrays |= {"factors": model.quadratic.factors, "offsets": model.quadratic.offsets}
        header |= {"exponent": model.quadratic.exponent, "share": model.quadratic.share.hex()}
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return encode_tensors(text, arrays)


def read_model(data: bytes) -> tuple[Encoder, Origin, FittedHead]:
    """What `write_model` wrote; `WireError` for anything that is not a model."""
    text, arrays = decode_tensors(data)
    with refusing_malformed("safle model"):
        header = read_header(text, FORMAT, "a safle model")
        encoder_arrays = {
            name.removeprefix(_ENCODER_PREFIX): array
            for name, array in arrays.items()
            if name.startswith(_ENCODER_PREFIX)
        }
        encoder = restore_encoder(header["encoder"], encoder_arrays)
        classes = _restore_classes(header["classes"])
        if header["sum"] != "" and not is_digest(header["sum"]):
            raise WireError("the digest of the sum is malformed; expected 64 hexadecimal digits")
        codes, weights, intercept = _restore_weights(encoder, len(classes), arrays)
        fitted = FittedHead(
            *_restore_head(header),
            weights.astype(np.float64),
            intercept.astype(np.float64),
            _restore_temperature(header),
            _restore_squares(header, arrays, len(classes)),
        )
        promise = _restore_promise(header)
        origin = Origin(encoder.space, codes, classes, header["sum"], promise)
        return encoder, origin, fitted


def _restore_head(header: dict[str, Any]) -> tuple[str, float]:
    """Its name and its ridge."""
    head = header["head"]
    ridge = float.fromhex(header["ridge"])
    if head not in HEADS or not 0 <= ridge < np.inf:
        raise WireError(
            f"head {head!r} and ridge {ridge}; expected one of {', '.join(HEADS)}, and a finite "
            "ridge from 0"
        )
    return head, ridge


def _restore_temperature(header: dict[str, Any]) -> float | None:
    if "temperature" not in header:
        return None
    temperature = float.fromhex(header["temperature"])
    if not 0 < temperature < np.inf:
        raise WireError(f"temperature {temperature}; expected a positive number")
    return temperature


def _restore_squares(header: dict[str, Any], arrays: Arrays, classes: int) -> Quadratic | None:
    if "factors" not in arrays:
        return None
    exponent = header["exponent"]
    offsets = arrays["offsets"]
    if type(exponent) is not int or len(offsets) != classes:
        raise WireError(
            f"exponent {exponent!r} and offsets of {len(offsets)} classes; expected "
            f"a whole number and {classes}"
        )
    return Quadratic(arrays["factors"], exponent, offsets, float.fromhex(header["share"]))


def _restore_promise(header: dict[str, Any]) -> str:
    """The promise of noisy statistics: it is shown to people, so it must be one short line."""
    promise = header.get("promise", "")
    malformed = not isinstance(promise, str) or len(promise) > MAX_PROMISE
    if malformed or not promise.isprintable() or ("promise" in header and not promise):
        raise WireError(f"the promise is not one line of up to {MAX_PROMISE} characters")
    return str(promise)


def _restore_classes(names: Any) -> tuple[ClassName, ...]:
    if not isinstance(names, list) or as_class_names(names) != tuple(names) or not names:
        raise WireError("the class names are not in ascending order")
    return tuple(names)


def _restore_weights(
    encoder: Encoder, classes: int, arrays: Arrays
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Codes, weights and intercept, checked against the encoder and the number of classes."""
    codes, weights, intercept = (arrays[name] for name in ("codes", "weights", "intercept"))
    rows = len(codes) + encoder.layout.dense_dim
    shapes = {
        "codes": (codes, np.int64, (len(codes),)),
        "weights": (weights, np.float32, (rows, classes)),
        "intercept": (intercept, np.float32, (classes,)),
    }
    for name, (array, dtype, shape) in shapes.items():
        if array.dtype != dtype or array.shape != shape or not np.isfinite(array).all():
            raise WireError(f"{name} is {array.dtype} {array.shape}; expected {shape}, finite")
    if not np.array_equal(round_to_grid(weights), weights):
        raise WireError(f"the weights are not multiples of one power of two with {MAX_BITS} bits")
    limit = encoder.layout.code_count
    if (np.diff(codes) <= 0).any() or (len(codes) and not 0 <= codes[0] <= codes[-1] < limit):
        raise WireError("the codes are not ascending columns of the encoder")
    return codes, weights, intercept
