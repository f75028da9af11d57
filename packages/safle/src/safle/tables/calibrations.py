"""Files that calibrate: ranges, one for each feature; mean and deviation of every feature."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from safle.basics import atomic
from safle.basics.places import naming
from safle.encoders.calibration import DeclaredMoments, DeclaredRange
from safle.encoders.cells import NotANumber, read_cells
from safle.encoders.features import as_source
from safle.encoders.schema import Schema
from safle.errors import InvalidInput, SettingsError, TableError
from safle.tables.selection import existing_file
from safle.tables.sheets import Sheet, read_csv


def read_ranges(path: str | os.PathLike[str]) -> DeclaredRange:
    r"""The ranges in a CSV or TOML file, in the order of the features' names.

    A CSV file has columns ``low`` and ``high``, and ``name`` where features have names; without
    it, lines are in the order of the features. A TOML file is a schema of numbers alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     written = file.write("name,low,high\nratio,0,1\nplatelets,100,500\n")
    ...     file.flush()
    ...     read_ranges(file.name).names
    ('platelets', 'ratio')
    """
    file = Path(path)
    with naming(file):
        if file.suffix.lower() == ".toml":
            return _from_schema(Schema.read(file))
        return _from_sheet(read_csv(file))


def _from_schema(schema: Schema) -> DeclaredRange:
    if categories := [column.name for column in schema.columns if column.is_category]:
        raise TableError(
            f"{', '.join(categories)} have levels; expected ranges of numbers alone: an encoder of "
            "numbers and categories is made with --schema"
        )
    low = [column.low for column in schema.columns]
    return DeclaredRange(low, [column.high for column in schema.columns], names=schema.names)


def _from_sheet(sheet: Sheet) -> DeclaredRange:
    found = {name.casefold(): name for name in sheet.names}
    if not {"low", "high"} <= {*found} <= {"name", "low", "high", "unit"}:
        raise TableError(
            f"a header of {', '.join(sheet.names)}; expected name, low and high, and nothing but "
            "'unit' beside them"
        )
    if not len(sheet):
        raise TableError("has no ranges; expected one line for each feature")
    low, high = (_numbers(sheet, found[name]) for name in ("low", "high"))
    if "name" not in found:
        return DeclaredRange(low, high)
    names = sheet.texts(found["name"]).str.strip_chars()
    order = names.arg_sort().to_numpy()
    return DeclaredRange(low[order], high[order], names=names.sort().to_list())


def _numbers(sheet: Sheet, name: str) -> NDArray[np.float64]:
    try:
        return read_cells(sheet.texts(name))
    except NotANumber as error:
        sheet.refuse(error.row, f", column {name!r} is no number; expected one in every line")


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
