"""Files of arrays: .npz, read whole; .npy, memory-mapped; .safetensors, read slice by slice."""

import contextlib
import json
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from safle.errors import TableError
from safle.tables.selection import COLUMN_OPTIONS, Selection
from safle.tables.table import Rows, Table

SAMPLE_NAMES = "sample_names"


def read_npz_table(path: Path, selection: Selection) -> Table:
    """Features and labels from the arrays of an archive."""
    if not zipfile.is_zipfile(path):
        raise TableError(
            f"{path}: not a .npz archive, or the end of it is missing; copy or export it again"
        )
    with _reading(path), np.load(path, allow_pickle=False) as archive:
        features_key, labels_key = selection.keys(path, archive.files)
        labels = None if labels_key is None else archive[labels_key]
        return Table(_array(archive[features_key], path), labels)


def read_npy_table(path: Path, selection: Selection) -> Table:
    """Features from one array; such a file has no labels."""
    selection.refuse(path, "split", "features_key", "labels_key", *COLUMN_OPTIONS)
    return Table(read_npy(path), None)


def read_npy(path: Path) -> NDArray[Any]:
    """The array of a .npy file, memory-mapped."""
    with _reading(path):
        return _array(np.load(path, mmap_mode="r", allow_pickle=False), path)


def _array(value: object, path: Path) -> NDArray[Any]:
    # numpy goes by a file's first bytes, not by its suffix.
    if not isinstance(value, np.ndarray):
        raise TableError(f"{path}: not an array but {type(value).__name__}; correct its suffix")
    return value


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (TableError, OSError):
        raise
    # A header is parsed as Python: tokens, syntax, types, sizes; and what is compressed inflates.
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


# What numpy can hold; bfloat16 and the 8-bit floats are not among them.
DTYPES: dict[str, type] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def _read_rows(path: Path, key: str, start: int, stop: int) -> NDArray[Any]:
    with _opened(path) as file:
        rows: NDArray[Any] = file.get_slice(key)[start:stop]
        return rows


def read_safetensors_table(path: Path, selection: Selection) -> Table:
    """Features and labels from the tensors of a file.

    A metadata entry ``classes``, names separated by commas or a JSON list of them,
    says what class 0, class 1 and so on are called; an entry ``source`` says what made
    the features; bytes called ``sample_names``, a JSON list, name the samples.
    """
    with _opened(path) as file:
        features_key, labels_key = selection.keys(path, file.keys())
        shape = tuple(file.get_slice(features_key).get_shape())
        dtype = _dtype(file, features_key, path)
        if len(shape) != 2:
            raise TableError(
                f"{path}: '{features_key}' has shape {shape}; expected (samples, features): "
                "reshape images or sequences to one row per sample"
            )
        labels = None
        if labels_key is not None:
            _dtype(file, labels_key, path)
            labels = file.get_tensor(labels_key)
        metadata = file.metadata() or {}
        # The names of a split's samples would be those of another split, too.
        named = features_key == "features" and SAMPLE_NAMES in file.keys()  # noqa: SIM118
        ids = _sample_names(file, path, shape[0]) if named else None
    names = _class_names(metadata.get("classes"), path)
    rows = Rows(shape, dtype, partial(_read_rows, path, features_key))
    return Table(rows, labels, names, metadata.get("source", ""), ids=ids)


def _sample_names(file: Any, path: Path, rows: int) -> NDArray[Any]:
    try:
        names = json.loads(file.get_tensor(SAMPLE_NAMES).tobytes())
        "".join(names).encode()
    except (ValueError, TypeError, RecursionError):
        names = None
    if not isinstance(names, list):
        raise TableError(f"{path}: '{SAMPLE_NAMES}' is not a JSON list of names; make it again")
    if len(names) != rows:
        raise TableError(
            f"{path}: '{SAMPLE_NAMES}' names {len(names)} samples, but there are {rows} rows of "
            "features; make it again"
        )
    # As objects: one long name among many would make all of them as wide.
    return np.array(names, object)


def _dtype(file: Any, key: str, path: Path) -> type:
    name = file.get_slice(key).get_dtype()
    if name not in DTYPES:
        raise TableError(
            f"{path}: '{key}' has type {name}; expected one of {', '.join(DTYPES)}: "
            "convert it, for example to F32"
        )
    return DTYPES[name]


def _class_names(text: str | None, path: Path) -> tuple[str, ...] | None:
    if text is None:
        return None
    try:
        listed = json.loads(text) if text.startswith("[") else None
    except ValueError:
        listed = None
    plain = isinstance(listed, list) and all(isinstance(name, str) for name in listed)
    # Written as a JSON list if one of them holds a comma.
    names = tuple(listed) if plain and listed else tuple(n.strip() for n in text.split(","))
    if "" in names or len(set(names)) != len(names):
        raise TableError(
            f"{path}: metadata 'classes' is {text!r}; expected different names separated by commas"
        )
    return names


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except SafetensorError as error:
        raise TableError(
            f"{path}: not a whole .safetensors file ({error}); copy or export it again"
        ) from error
