"""Files of arrays: .npz, read whole; and .safetensors, memory-mapped."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from safle.errors import TableError
from safle.tables.table import Table, find_arrays

SAMPLE_NAMES = "sample_names"
# NumPy has no bfloat16 and no floats of 8 bits.
_DTYPES = {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
_DTYPES |= {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?"}


def read_npz_table(path: Path, split: str | None) -> Table:
    """Features and labels from the arrays of an archive."""
    if not zipfile.is_zipfile(path):
        raise TableError(
            f"{path}: not a .npz archive, or the end of it is missing; copy or export it again"
        )
    with _explaining_errors(path), np.load(path, allow_pickle=False) as archive:
        features_key, labels_key = find_arrays(path, split, archive.files)
        labels = None if labels_key is None else archive[labels_key]
        return Table(_require_array(archive[features_key], path), labels)


def _require_array(value: object, path: Path) -> NDArray[Any]:
    # NumPy chooses the format by a file's first bytes, not by its suffix.
    if not isinstance(value, np.ndarray):
        raise TableError(f"{path}: not an array but {type(value).__name__}; correct its suffix")
    return value


@contextlib.contextmanager
def _explaining_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (TableError, OSError):
        raise
    # NumPy parses a header as Python and inflates data: a damaged file may raise any error.
    except Exception as error:
        if "objects" in str(error) or "Object arrays" in str(error):
            raise TableError(
                f"{path}: holds Python objects, which safle never loads because unpickling "
                "runs code; save arrays of numbers or of strings"
            ) from None
        raise TableError(
            f"{path}: not a whole {path.suffix} file ({type(error).__name__}: {str(error)[:80]}); "
            "copy or export it again"
        ) from error


def read_safetensors_table(path: Path, split: str | None) -> Table:
    """Features and labels from the tensors of a file.

    Metadata: ``classes`` names them in order, by commas or as a JSON list; ``source``, ``device``
    say what made the features, and where. Bytes ``sample_names``, a JSON list, name the samples.
    """
    with _open_safetensors(path) as file:
        features_key, labels_key = find_arrays(path, split, file.keys())
        features = _map_tensor(file, features_key, path)
        labels = None if labels_key is None else _map_tensor(file, labels_key, path)
        metadata = file.metadata() or {}
        # A file has one list of names, which cannot fit each of several splits.
        named = features_key == "features" and SAMPLE_NAMES in file.keys()  # noqa: SIM118
        ids = _sample_names(file, path, len(features)) if named else None
    names = _class_names(metadata.get("classes"), path)
    origin = {name: metadata.get(name, "") for name in ("source", "device")}
    return Table(features, labels, names, ids=ids, **origin)


def _sample_names(file: Any, path: Path, rows: int) -> NDArray[Any]:
    try:
        names = msgspec.json.decode(file.get_tensor(SAMPLE_NAMES).tobytes(), type=list[str])
    except msgspec.DecodeError:
        raise TableError(
            f"{path}: '{SAMPLE_NAMES}' is not a JSON list of names; make the file again"
        ) from None
    if len(names) != rows:
        raise TableError(
            f"{path}: '{SAMPLE_NAMES}' names {len(names)} samples, but there are {rows} rows of "
            "features; make the file again"
        )
    # Objects, because one long name makes every entry of an array of strings as wide.
    return np.array(names, object)


def _map_tensor(file: Any, key: str, path: Path) -> NDArray[Any]:
    """A tensor of a file that `safe_open` has checked, memory-mapped."""
    tensor = file.get_slice(key)
    dtype = tensor.get_dtype()
    if dtype not in _DTYPES:
        raise TableError(
            f"{path}: '{key}' has type {dtype}; expected one of {', '.join(_DTYPES)}: "
            "convert it, for example to F32"
        )
    content = np.memmap(path, np.uint8, "r")
    data = 8 + int.from_bytes(content[:8].tobytes(), "little")
    start, stop = msgspec.json.decode(content[8:data].tobytes())[key]["data_offsets"]
    return content[data + start : data + stop].view(_DTYPES[dtype]).reshape(tensor.get_shape())


def _class_names(text: str | None, path: Path) -> tuple[str, ...] | None:
    if text is None:
        return None
    try:
        names = msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError:
        names = tuple(name.strip() for name in text.split(","))
    if not names or "" in names or len({*names}) != len(names):
        raise TableError(
            f"{path}: metadata 'classes' is {text!r}; expected different names separated by commas"
        )
    return names


@contextlib.contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except SafetensorError as error:
        raise TableError(
            f"{path}: not a whole .safetensors file ({error}); copy or export it again"
        ) from error
