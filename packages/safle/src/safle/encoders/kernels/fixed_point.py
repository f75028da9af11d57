"""Standardised features as fixed-point integers, one pass over memory."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from safle.basics.compiling import run_kernel

MOST_DENSE = 32_767
_SAMPLES = 16
"""That a thread takes at a time."""
_NANOSECONDS = 1.5
"""Of one feature, about."""


@njit(cache=True, nogil=True, error_model="numpy")
def _shorten(row, longest):  # type: ignore[no-untyped-def]
    power = np.int64(0)
    for value in row:
        power += np.int64(value) * np.int64(value)
    # Below 2**52, the float's root is a whole number only if the true one is.
    length = np.int64(np.ceil(np.sqrt(np.float64(power))))
    if length > longest:
        for column in range(len(row)):
            value = np.int64(row[column])
            share = abs(value) * longest // length
            row[column] = np.int16(share if value > 0 else -share)


@njit(cache=True, nogil=True, error_model="numpy")
def _fix_row(features, mean, deviation, scale, root, longest, row):  # type: ignore[no-untyped-def]
    # float64 whatever the features' type: the codes must not depend on it.
    for column in range(len(mean)):
        value = np.float64(features[column])
        if root:
            value = np.copysign(np.sqrt(np.abs(value)), value)
        value = np.rint((value - mean[column]) / deviation[column] * scale)
        row[column] = np.int16(min(max(value, -MOST_DENSE), MOST_DENSE))
    if longest:
        _shorten(row[: len(mean)], longest)


@njit(cache=True, nogil=True)
def _fix_rows(features, mean, deviation, scale, root, longest, dense):  # type: ignore[no-untyped-def]
    for sample in range(len(features)):
        _fix_row(features[sample], mean, deviation, scale, root, longest, dense[sample])


@njit(cache=True, nogil=True, parallel=True)
def _fix_parts(features, mean, deviation, scale, root, longest, dense):  # type: ignore[no-untyped-def]
    for part in prange((len(features) + _SAMPLES - 1) // _SAMPLES):
        rows = slice(np.int64(part) * _SAMPLES, (np.int64(part) + 1) * _SAMPLES)
        _fix_rows(features[rows], mean, deviation, scale, root, longest, dense[rows])


def fix(
    features: NDArray[np.floating],
    mean: NDArray[np.float64],
    deviation: NDArray[np.float64],
    *,
    scale: float,
    root: bool,
    longest: int = 0,
    dense: NDArray[np.int16],
) -> None:
    """``dense[:, f] = round(scale * (t(x_f) - mean_f) / deviation_f)``, within int16.

    Parameters
    ----------
    features : float32 or float64, finite, (samples, feature_dim)
    root : whether t is the square root of the magnitude, with its sign, or nothing
    longest : than which no row of ``dense`` is, if not 0; see `Operations.shorten`
    dense : int16, (samples, at least feature_dim), changed in place
    """
    arguments = features, mean, deviation, float(scale), root, longest, dense
    if len(features) <= _SAMPLES:
        _fix_rows(*arguments)
    else:
        run_kernel(_fix_parts, *arguments, nanoseconds=_NANOSECONDS * features.size)
