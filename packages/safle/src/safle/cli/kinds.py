"""What kind of file lies at a place, by what is in it: for ``inspect``, and before overwriting."""

from __future__ import annotations

import json
import re
from pathlib import Path

from safetensors import SafetensorError, safe_open

from safle.encoders.schema import Schema
from safle.errors import SafleError
from safle.wire.container import peek_kind

MARKS = {
    "model card": rb"\A# Model card\n\n\| \| \|\n\|---\|---\|\n\| digest \| `[0-9a-f]{64}`",
    "picture": rb"\A\x89PNG.{,4096}Software\x00safle",
    "page": rb'<meta name="generator" content="safle">',
    "figures": rb'\A\{\s*"model": "[0-9a-f]{64}"',
    "ridge curve": rb'\A(\{\s*"best": |ridge,\w+,degrees_of_freedom\r?\n)',
    "predictions": rb'\A[^,\n]*,class(\r?\n|,"?probability_)',
    "ONNX graph": rb"\A\x08.*safle",
    "torch program": rb"\APK.*/extra/classes\.json",
}
"""Kinds of file that others can read, too -> what they begin with, or hold near an end."""
NEAR = 1 << 16
"""How many bytes at either end of a file its marks are looked for in."""
SAFETENSORS = ("encoder", "model")


def kind_of(path: Path) -> str:
    """The kind of a file that safle has written; empty for all others.

    A name says nothing: a client's table ends as predictions do.
    """
    return peek_kind(path) or _safetensors_kind(path) or _marked_kind(path)


def _safetensors_kind(path: Path) -> str:
    try:
        with path.open("rb"), safe_open(path, framework="numpy") as file:
            metadata, tensors = file.metadata() or {}, {*file.keys()}
        found = str(json.loads(metadata.get("safle", "{}")).get("format"))
    except (SafetensorError, ValueError, AttributeError):
        return ""
    if "source" in metadata and tensors == {"mean", "deviation"}:
        return "moments"
    if "source" in metadata and {"features", "sample_names"} <= tensors:
        return "features"
    # By prefix: a file of a later version is told apart by its own reader.
    return next((kind for kind in SAFETENSORS if found.startswith(f"safle-{kind}-")), "")


def _marked_kind(path: Path) -> str:
    if path.suffix.lower() == ".toml":
        try:
            Schema.read(path)
        except SafleError:
            return ""
        return "schema"
    with path.open("rb") as file:
        ends = file.read(NEAR)
        file.seek(max(path.stat().st_size - NEAR, len(ends)))
        ends += file.read()
    found = (kind for kind, mark in MARKS.items() if re.search(mark, ends, re.DOTALL))
    return next(found, "")
