"""Matrices of small integers with few entries in each column: what an export holds of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_ROWS, MOST_VALUE = np.iinfo(np.int16).max, np.iinfo(np.int8).max
MOST_ENTRIES = 64
"""Of a column: each is a step of the exported graph."""


class Columns(NamedTuple):
    """``matrix[rows[k, j], j] = values[k, j]``, and zero elsewhere.

    Attributes
    ----------
    rows : int16, (entries, columns), different ones in each column
    values : int8, (entries, columns)
    """

    rows: NDArray[np.int16]
    values: NDArray[np.int8]


def few_entries(matrix: NDArray[Any]) -> Columns | None:
    """The entries of ``matrix``, or None where they are many, or not small integers.

    >>> found = few_entries(np.array([[0, -1], [0, 0], [2, 0], [0, 0]], np.float32))
    >>> found.rows.tolist(), found.values.tolist()
    ([[2, 0]], [[2, -1]])
    """
    entries = int((matrix != 0).sum(axis=0).max(initial=0))
    small = len(matrix) <= MOST_ROWS and np.abs(matrix).max(initial=0) <= MOST_VALUE
    if not small or not 0 < entries <= MOST_ENTRIES or not np.array_equal(matrix, np.rint(matrix)):
        return None
    rows = np.argsort(matrix == 0, axis=0, kind="stable")[:entries]
    values = np.take_along_axis(matrix, rows, axis=0)
    return Columns(rows.astype(np.int16), values.astype(np.int8))
