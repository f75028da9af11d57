"""A table -> a file, whole or not at all; `safle.tables.open_table` reads it back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from safle.basics.atomic import replacing
from safle.encoders.features import as_labels, as_source
from safle.encoders.schema import LABEL_COLUMN
from safle.errors import InvalidInput, TableError
from safle.tables.arrays import SAMPLE_NAMES
from safle.tables.table import check_features


def write_table(
    path: str | os.PathLike[str], features: ArrayLike, labels: ArrayLike | None = None
) -> None:
    """Write features and labels.

    Numbers keep their exact values, and their type except in .csv, which is read as float64. A
    .csv does not tell the string ``"7"`` from the integer 7: if all labels look like integers, they
    are read as integers.

    Parameters
    ----------
    path : .npz, .safetensors, .npy (features only) or .csv
    features : numbers, (sample_count, feature_dim)
    labels : integers or strings, (sample_count,), optional

    Examples
    --------
    >>> import tempfile
    >>> from safle.tables import open_table
    >>> with tempfile.NamedTemporaryFile(suffix=".npz") as file:
    ...     write_table(file.name, [[46.0, 4.5]], ["cat"])
    ...     open_table(file.name).labels.tolist()
    ['cat']
    """
    target = Path(path)
    matrix = np.asarray(features)
    check_features(matrix, where="the array of features", error=InvalidInput)
    matrix = np.ascontiguousarray(matrix, dtype=matrix.dtype.newbyteorder("="))
    classes = None if labels is None else as_labels(labels, len(matrix))
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise TableError(f"{target}: unknown kind of file; expected one of {', '.join(_WRITERS)}")
    with replacing(target) as scratch:
        write(scratch, matrix, classes)


def _write_npz(path: Path, features: NDArray[Any], labels: NDArray[Any] | None) -> None:
    arrays = {"features": features} if labels is None else {"features": features, "labels": labels}
    # An open file: given a name, numpy would add a suffix of its own.
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _write_npy(path: Path, features: NDArray[Any], labels: NDArray[Any] | None) -> None:
    if labels is not None:
        raise TableError(
            "a .npy file holds one array, not features and labels; write .npz, or save the "
            "labels with numpy.save in a file of their own"
        )
    with path.open("wb") as file:
        np.save(file, features, allow_pickle=False)


def _write_safetensors(path: Path, features: NDArray[Any], labels: NDArray[Any] | None) -> None:
    numbers, metadata = _numbered(labels)
    tensors = {"features": features} | ({} if numbers is None else {"labels": numbers})
    save_file(tensors, path, metadata)


def _write_csv(path: Path, features: NDArray[Any], labels: NDArray[Any] | None) -> None:
    import polars as pl

    # The text of a float64 is exact, that of a float32 the shortest for its type.
    matrix = features.astype(
        {"f": np.float64, "b": np.uint8}.get(features.dtype.kind, features.dtype)
    )
    frame = pl.DataFrame(matrix, [f"f{at}" for at in range(matrix.shape[1])])
    if labels is not None:
        frame = frame.with_columns(pl.Series(LABEL_COLUMN, labels.tolist()))
    frame.write_csv(path)


_WRITERS = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".safetensors": _write_safetensors,
    ".csv": _write_csv,
}


def write_features_file(
    path: str | os.PathLike[str],
    rows: Iterable[bytes],
    feature_dim: int,
    *,
    names: Sequence[str],
    labels: ArrayLike | None = None,
    source: str = "",
) -> None:
    """Write a .safetensors file of more features than memory holds.

    Parameters
    ----------
    rows : the bytes of float32 features, little-endian, any number of rows at a time
    names : of the samples, in order
    labels : integers or strings, one for each sample
    source : what made the features

    Examples
    --------
    >>> import tempfile
    >>> from safle.tables import open_table
    >>> rows = [np.array([46.0, 4.5], "<f4").tobytes()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/features.safetensors"
    ...     write_features_file(place, rows, 2, names=["1.png"], labels=["cat"])
    ...     table = open_table(place)
    ...     table.features[:].tolist(), table.labels.tolist(), table.ids.tolist()
    ([[46.0, 4.5]], ['cat'], ['1.png'])
    """
    count = len(names)
    numbers, metadata = _numbered(None if labels is None else as_labels(labels, count))
    parts = [("features", "F32", [count, feature_dim], 4 * count * feature_dim)]
    tail = b""
    if numbers is not None:
        tail = numbers.astype("<i8").tobytes()
        parts.append(("labels", "I64", [count], len(tail)))
    called = json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()
    parts.append((SAMPLE_NAMES, "U8", [len(called)], len(called)))
    header: dict[str, object] = {"__metadata__": {"source": as_source(source), **metadata}}
    end = 0
    for name, dtype, shape, size in parts:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as scratch, scratch.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(rows)
        file.write(tail + called)


def _numbered(labels: NDArray[Any] | None) -> tuple[NDArray[np.int64] | None, dict[str, str]]:
    """Labels as class numbers, and the metadata that names the classes."""
    if labels is None or labels.dtype.kind != "U":
        return labels, {}
    classes, numbers = np.unique(labels, return_inverse=True)
    names = classes.tolist()
    if "" in names:
        raise TableError("a class without a name; expected a name for every class: give it one")
    plain = all(name == name.strip() and not {*name} & {*',[]"'} for name in names)
    return numbers.astype(np.int64), {"classes": ",".join(names) if plain else json.dumps(names)}
