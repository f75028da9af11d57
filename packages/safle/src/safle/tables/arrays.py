"""Files of arrays: .npz, read whole; and .safetensors, memory-mapped.

Also writes .safetensors files: of features that memory does not hold, and of moments.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from safle.basics import atomic
from safle.encoders.calibration import Calibration, as_moments, declared_moments
from safle.errors import InvalidInput, SettingsError, TableError
from safle.tables.checks import as_labels, as_source
from safle.tables.table import Table, existing_file, find_arrays

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
    dtype, shape = tensor.get_dtype(), tensor.get_shape()
    if dtype not in _DTYPES:
        raise TableError(
            f"{path}: '{key}' has type {dtype}; expected one of {', '.join(_DTYPES)}: "
            "convert it, for example to F32"
        )
    content = np.memmap(path, np.uint8, "r")
    data = 8 + int.from_bytes(content[:8].tobytes(), "little")
    start, stop = msgspec.json.decode(content[8:data].tobytes())[key]["data_offsets"]
    return content[data + start : data + stop].view(_DTYPES[dtype]).reshape(shape)


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


def write_features_file(
    path: str | os.PathLike[str],
    rows: Iterable[bytes],
    feature_dim: int,
    *,
    names: Sequence[str],
    labels: ArrayLike | None = None,
    source: str = "",
    device: str = "",
) -> None:
    """Write a .safetensors file of features that memory need not hold at once.

    Parameters
    ----------
    rows : the bytes of float32 features, little-endian, any number of rows at a time
    names, labels : of the samples, in order; labels are integers or strings
    source, device : what made the features, and where it ran

    Examples
    --------
    >>> import tempfile
    >>> from safle import open_table
    >>> rows = [np.array([46.0, 4.5], "<f4").tobytes()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/features.safetensors"
    ...     write_features_file(place, rows, 2, names=["1.png"], labels=["cat"])
    ...     table = open_table(place)
    ...     table.features.tolist(), table.labels.tolist(), table.ids.tolist()
    ([[46.0, 4.5]], ['cat'], ['1.png'])
    """
    count, label_bytes = len(names), b""
    metadata = {"source": as_source(source), "device": device}
    parts = [("features", "F32", [count, feature_dim], 4 * count * feature_dim)]
    if labels is not None:
        numbers = as_labels(labels, count)
        if numbers.dtype.kind == "U":
            classes, numbers = np.unique(numbers, return_inverse=True)
            if "" in classes:
                raise TableError("a class without a name; expected a name for every class")
            metadata["classes"] = json.dumps(classes.tolist())
        label_bytes = numbers.astype("<i8").tobytes()
        parts.append(("labels", "I64", [count], len(label_bytes)))
    name_bytes = json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()
    parts.append((SAMPLE_NAMES, "U8", [len(name_bytes)], len(name_bytes)))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, dtype, shape, size in parts:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with atomic.replacing(path) as scratch, scratch.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(rows)
        file.write(label_bytes + name_bytes)


def write_moments(
    path: str | os.PathLike[str], mean: ArrayLike, deviation: ArrayLike, *, source: str = ""
) -> None:
    """Write a file of moments; ``source`` says what makes the features.

    It is a .safetensors file with the tensors ``mean`` and ``deviation``, (feature_dim,) each.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_moments(f"{folder}/m.safetensors", [5, 100], [2, 15], source="a network")
    ...     moments, source = read_moments(f"{folder}/m.safetensors")
    >>> moments.mean.tolist(), source
    ([5.0, 100.0], 'a network')
    """
    mean, deviation = as_moments(mean, deviation)
    arrays = {"mean": mean, "deviation": np.ascontiguousarray(deviation)}
    atomic.write_bytes(Path(path), save(arrays, metadata={"source": as_source(source)}))


def read_moments(path: str | os.PathLike[str]) -> tuple[Calibration, str]:
    """The moments in a file, and the source of their features: empty if unknown.

    Examples
    --------
    >>> read_moments("nowhere.safetensors")
    Traceback (most recent call last):
    safle.errors.TableError: nowhere.safetensors: no such file or folder
    """
    file = existing_file(path, TableError)
    try:
        with safe_open(file, framework="numpy") as tensors:
            mean, deviation = tensors.get_tensor("mean"), tensors.get_tensor("deviation")
            source = as_source((tensors.metadata() or {}).get("source", ""))
        return declared_moments(mean, deviation), source
    # safetensors raises a TypeError for types that NumPy lacks.
    except (SafetensorError, TypeError, InvalidInput, SettingsError) as error:
        raise TableError(f"{file}: not a file of moments ({error}); make it again") from None
