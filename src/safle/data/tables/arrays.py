"""numpy's own files: .npz archives, read whole, and .npy arrays, memory-mapped."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.data.tables.selection import Contents, Selection
from safle.errors import TableError


def read_npz_table(path: Path, selection: Selection) -> Contents:
    """Features and labels from the arrays of an archive."""
    if not zipfile.is_zipfile(path):
        raise TableError(
            f"{path}: not a .npz archive, or the end of it is missing; copy or export it again"
        )
    with _reading(path), np.load(path, allow_pickle=False) as archive:
        features_key, labels_key = selection.keys(path, archive.files)
        labels = None if labels_key is None else archive[labels_key]
        return Contents(_array(archive[features_key], path), labels)


def read_npy_table(path: Path, selection: Selection) -> Contents:
    """Features from one array; such a file has no labels."""
    selection.refuse(path, "split", "features_key", "labels_key", "label_column")
    return Contents(read_npy(path), None)


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
    except TableError:
        raise
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if "objects" in str(error) or "Object arrays" in str(error):
            raise TableError(
                f"{path}: holds Python objects, which safle never loads because unpickling "
                "runs code; save arrays of numbers or of strings"
            ) from None
        raise TableError(
            f"{path}: not a whole {path.suffix} file ({error}); copy or export it again"
        ) from error
