"""A number, or a file of numbers: how moments are given on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from safle.data.tables.arrays import read_npy
from safle.errors import TableError


def number_or_vector(text: str) -> float | NDArray[np.float64]:
    """``text`` as a number, else the vector in the file of that name.

    Returns
    -------
    value : float, or float64, (feature_dim,)
        From a .npy array, or from a text file with one number a line.
    """
    try:
        return float(text)
    except ValueError:
        return _read(Path(text))


def _read(path: Path) -> NDArray[np.float64]:
    vector = read_npy(path) if path.suffix.lower() == ".npy" else _read_text(path)
    if vector.ndim != 1 or vector.dtype.kind not in "fiu" or not len(vector):
        raise TableError(
            f"{path}: {vector.dtype} numbers of shape {vector.shape}; expected one number a feature"
        )
    return vector.astype(np.float64)


def _read_text(path: Path) -> NDArray[np.float64]:
    numbers = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split(), start=1):
        try:
            numbers.append(float(line))
        except ValueError:
            raise TableError(
                f"{path}: value {number} is {line[:40]!r}; expected one number a line"
            ) from None
    return np.array(numbers)
