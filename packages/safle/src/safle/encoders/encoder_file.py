"""An encoder's file: a header of canonical JSON and its arrays; everything read is checked."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from safle.basics.places import naming, read_capped
from safle.basics.tensors import (
    Arrays,
    read_header,
    read_tensors,
    refusing_malformed,
)
from safle.encoders.registry import kind_named
from safle.errors import WireError

if TYPE_CHECKING:
    from safle.encoders.base import Encoder

FORMAT = "safle-encoder-4"
MAX_FILE_BYTES = 1 << 28
"""An encoder holds thresholds, not data: anything larger is not one."""


def encoder_header(encoder: Encoder) -> str:
    """All but the arrays as canonical JSON; without source, names, ... where there are none.

    The layout follows from the rest. It is there so that another version of safle, in which
    it follows differently, refuses the encoder instead of misreading statistics.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "kind": encoder.kind,
        "settings": encoder.header(),
        "layout": encoder.layout.to_json(),
    }
    content |= {"source": encoder.source} if encoder.source else {}
    content |= {"features": [*encoder.feature_names]} if encoder.feature_names else {}
    content |= {"classes": [*encoder.classes]} if encoder.classes else {}
    # A schema says its own.
    if encoder.ranges is not None and encoder.schema is None:
        content["ranges"] = [end.tolist() for end in encoder.ranges]
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def encoder_arrays(encoder: Encoder) -> Arrays:
    """Its arrays as files hold them: float64, whatever a kind computes with."""
    return {name: np.asarray(array, np.float64) for name, array in encoder.arrays().items()}


def restore_encoder(header: str, arrays: Arrays) -> Encoder:
    """An encoder from its header and arrays; `WireError` if they do not make one."""
    with refusing_malformed("encoder"):
        content = read_header(header, FORMAT, "a safle encoder")
        encoder = restore_kind(content["kind"], content["settings"], arrays)
        encoder = encoder.with_source(content.get("source", ""))
        encoder = encoder.with_names(content.get("features", ()))
        encoder = encoder.with_classes(content.get("classes", ()))
        if "ranges" in content:
            low, high = content["ranges"]
            encoder = encoder.with_ranges(low, high)
    # Two texts of one header would be two identities of one encoder.
    if encoder_header(encoder) != header:
        raise WireError("the header is not as this safle writes it: make the encoder again")
    return encoder


def restore_kind(kind: Any, settings: Any, arrays: Arrays) -> Encoder:
    """An encoder of a kind by name."""
    for name, array in arrays.items():
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise WireError(f"encoder array {name!r} is not finite float64")
    return kind_named(kind).restore(settings, arrays)


def read_encoder(data: bytes) -> Encoder:
    """The encoder of a file's bytes."""
    if len(data) > MAX_FILE_BYTES:
        raise WireError(f"{len(data)} bytes; an encoder file has at most {MAX_FILE_BYTES}")
    return restore_encoder(*read_tensors(data))


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """Read an encoder file; nothing in it is executed.

    >>> load_encoder("nowhere.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.safetensors'
    """
    with naming(path):
        return read_encoder(read_capped(path, MAX_FILE_BYTES, "an encoder file"))
