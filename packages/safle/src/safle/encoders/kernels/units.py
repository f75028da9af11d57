"""Random features: a few signed additions per unit: ``_native/encode.c``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel

LANES = 16
"""Samples, and units, that are taken at a time."""
_encode_units = Kernel(
    "encode_units",
    "dense i2[samples, width]!",
    "samples",
    "width",
    "dim",
    "units",
    "rows u4[padded_units, terms] <2 * dim * 16 + 1",
    "terms",
    "shift",
    "largest",
    "table i2[(2 * dim + 1) * 16]~",
    pieces="(samples + 15) // 16",
)


def rows_of_terms(
    features: NDArray[np.integer[Any]], negative: NDArray[np.bool_], dim: int
) -> NDArray[np.uint32]:
    """What units add, as rows of a table of ``dim`` features, their negatives, and a zero.

    Parameters
    ----------
    features : int, (units, terms), below ``dim``; negative : bool, alike
    dim : number of features

    Returns
    -------
    uint32, (units rounded up to what is taken at a time, terms)
    """
    units, terms = features.shape
    rows = np.full((units + -units % LANES, terms), 2 * dim, np.uint32)
    rows[:units] = np.where(negative, dim + features, features)
    return rows * np.uint32(LANES)


def encode_units(
    dense: NDArray[np.int16],
    dim: int,
    units: int,
    rows: NDArray[np.uint32],
    *,
    shift: int,
    largest: int,
) -> None:
    """``dense[:, dim + 1 + j] = min(largest, max(0, sum_t ± dense[:, f(j, t)]) / 2^shift)``.

    Parameters
    ----------
    dense : int16, (samples, at least dim + 1 + units), features first, then a constant, then
        what is written, rounded; C-contiguous
    rows : from `rows_of_terms`
    shift, largest : at most 16, and at most int16
    """
    if dense.shape[1] < dim + 1 + units or len(rows) < units or not 0 <= shift <= 16:
        raise ValueError(f"{units} units of {dim} features do not fit {dense.shape[1]} columns")
    # About a third of a nanosecond for each addition of sixteen lanes.
    work = len(dense) * rows.size / LANES / 3
    _encode_units(dense, dim, units, rows, shift, largest, nanoseconds=work)
