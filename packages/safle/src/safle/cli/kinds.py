"""Which kind of file is there: for whoever shows it, or would overwrite it."""

import json
import re
from collections.abc import Collection
from pathlib import Path


def kind_of(path: Path) -> str:
    """One of our kinds of file, by what is in it; "table" for all others."""
    from safle.wire import peek_kind

    return peek_kind(path) or _safetensors_kind(path)


HEADERS = {
    "predictions": r"[^,]*,class(,probability_[^,]*)*",
    "ridge curve": r"ridge,\w+,degrees_of_freedom",
}
"""The first line of a .csv file that we have written: somebody's data have that ending, too."""


MARKS = {
    ".md": rb"# Model card",
    ".png": rb"Software\x00safle",
    ".html": rb'<meta name="generator" content="safle">',
    ".json": rb'\A\{\s*"(model": "[0-9a-f]{64}"|best": )',
    ".onnx": rb"safle",
    ".safetensors": rb'"source":',
}
"""What stands at the beginning of a file with this ending that we have written."""
LONGEST_BEGINNING = 1 << 14


def looks_like(path: Path, kinds: Collection[str]) -> bool:
    """Whether a file that is not in a format of ours was written by us, as one of ``kinds``.

    A kind is an ending or in `HEADERS`. Files with an ending that is not in `MARKS` have nothing
    to be known by.
    """
    ending = path.suffix.lower()
    if ending in MARKS:
        with path.open("rb") as file:
            return ending in kinds and bool(re.search(MARKS[ending], file.read(LONGEST_BEGINNING)))
    if ending != ".csv":
        return ending in kinds
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline(100_000).rstrip("\r\n")
    return any(re.fullmatch(HEADERS[kind], header) for kind in kinds if kind in HEADERS)


def _safetensors_kind(path: Path) -> str:
    from safetensors import SafetensorError, safe_open

    try:
        with path.open("rb"), safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("safle", "{}"))
        found = str(header.get("format"))
    except (SafetensorError, ValueError, AttributeError):
        found = ""
    # By prefix: a file of a later version is told apart by its own reader.
    for kind in ("encoder", "model", "classifier"):
        if found.startswith(f"safle-{kind}-"):
            return kind
    return "table"
