"""Files that calibrate: mean and deviation of every feature."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from safle.basics import atomic
from safle.encoders.calibration import DeclaredMoments
from safle.encoders.features import as_source
from safle.errors import InvalidInput, SettingsError, TableError
from safle.tables.selection import existing_file


def write_moments(
    path: str | os.PathLike[str], mean: ArrayLike, deviation: ArrayLike, *, source: str = ""
) -> None:
    """Write a file of moments; ``source`` says what makes the features that they are of.

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
    checked = DeclaredMoments(np.asarray(mean), np.asarray(deviation))
    arrays = {"mean": checked.mean, "deviation": np.ascontiguousarray(checked.deviation)}
    atomic.write_bytes(Path(path), save(arrays, metadata={"source": as_source(source)}))


def read_moments(path: str | os.PathLike[str]) -> tuple[DeclaredMoments, str]:
    """The moments in a file, and the source of the features that they are of: empty if unknown.

    Examples
    --------
    >>> read_moments("nowhere.safetensors")
    Traceback (most recent call last):
    safle.errors.TableError: nowhere.safetensors: no such file or folder
    """
    file = existing_file(path, TableError)
    try:
        with safe_open(file, framework="numpy") as tensors:
            names = sorted(tensors.keys())
            if not {"mean", "deviation"} <= {*names}:
                raise TableError(
                    f"{file}: has the tensors {', '.join(names)}; expected 'mean' and 'deviation'"
                )
            mean, deviation = tensors.get_tensor("mean"), tensors.get_tensor("deviation")
            source = as_source((tensors.metadata() or {}).get("source", ""))
        return DeclaredMoments(mean, deviation), source
    # A type that NumPy does not have is a TypeError.
    except (SafetensorError, TypeError, InvalidInput, SettingsError) as error:
        raise TableError(f"{file}: not a file of moments ({error}); make it again") from None
