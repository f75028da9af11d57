"""A table -> a file, whole or not at all."""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from safle.basics.atomic import replacing
from safle.encoders.features import as_labels
from safle.encoders.schema import LABEL_COLUMN
from safle.errors import InvalidInput, TableError
from safle.tables.arrays import class_names_text
from safle.tables.table import check_features

_ROWS_AT_ONCE = 1024


def write_table(
    path: str | os.PathLike[str], features: ArrayLike, labels: ArrayLike | None = None
) -> None:
    """Write features and labels so that :func:`safle.tables.open_table` reads them back.

    Parameters
    ----------
    path : .npz, .safetensors, .npy (features only) or .csv
    features : numbers, (sample_count, feature_dim)
    labels : integers or strings, (sample_count,), optional

    Notes
    -----
    Numbers keep their exact values everywhere, and their type except in .csv,
    which is read as float64. A .csv does not tell the string ``"7"`` from the
    integer 7: if all labels look like integers, they are read as integers.

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
    tensors, metadata = {"features": features}, {}
    if labels is not None and labels.dtype.kind == "U":
        names, labels = np.unique(labels, return_inverse=True)
        metadata["classes"] = class_names_text([str(name) for name in names])
    if labels is not None:
        tensors["labels"] = labels.astype(np.int64)
    save_file(tensors, path, metadata)


def _write_csv(path: Path, features: NDArray[Any], labels: NDArray[Any] | None) -> None:
    if features.dtype == np.bool_:
        features = features.astype(np.uint8)
    header = [f"f{at}" for at in range(features.shape[1])]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header if labels is None else [*header, LABEL_COLUMN])
        for start in range(0, len(features), _ROWS_AT_ONCE):
            # Python numbers: their text is exact, where numpy's is the shortest for its type.
            rows = features[start : start + _ROWS_AT_ONCE].tolist()
            if labels is not None:
                ends = labels[start : start + _ROWS_AT_ONCE].tolist()
                rows = [[*row, end] for row, end in zip(rows, ends, strict=True)]
            writer.writerows(rows)


_WRITERS = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".safetensors": _write_safetensors,
    ".csv": _write_csv,
}
